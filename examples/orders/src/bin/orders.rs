//! One of the steps, as a process of its own: `orders setup`, `orders api 127.0.0.1:3000`,
//! `orders relay`, `orders billing`. `DATABASE_URL` and `NATS_URL` say where the servers are.

use hapax_orders::{Failed, api, billing, interrupted, relay, setup};

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let given = |name: &str| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    let (database, nats) = (given("DATABASE_URL")?, given("NATS_URL")?);
    let stop = interrupted()?;
    match words[..] {
        ["setup"] => setup::run(&database, &nats).await,
        ["api", address] => api::run(address, &database, stop).await,
        ["relay"] => relay::run(&database, &nats, stop).await,
        ["billing"] => billing::run(&database, &nats, stop).await,
        _ => Err(format!("expected setup, api ADDRESS, relay or billing, got {words:?}").into()),
    }
}
