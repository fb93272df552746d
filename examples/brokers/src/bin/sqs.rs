//! Orders from a queue of Amazon SQS, each billed once, by any number of processes.
//!
//! `cargo run --bin sqs http://127.0.0.1:5000 redis://127.0.0.1/ ledger.txt`, where there are
//! queues `orders` and `orders-dead`.

use aws_sdk_sqs::config::{Credentials, Region};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_sqs::{Message, Sqs, SqsOptions};
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The number of orders that are billed at a time.
const IN_FLIGHT: usize = 8;

/// Returns the field `id` of a body in JSON; none for any other body, and such a message is put
/// aside. SQS's own id differs each time that a producer sends.
fn id(order: &Message) -> Option<String> {
    let body: Value = serde_json::from_str(order.body()?).ok()?;
    body["id"].as_str().map(str::to_owned)
}

/// Returns a client of a server on loopback. (In production:
/// `Client::new(&aws_config::load_from_env().await)`.)
fn client(endpoint: &str) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::Config::builder()
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("nobody", "nothing", None, None, "loopback"))
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    aws_sdk_sqs::Client::from_conf(config.behavior_version_latest().build())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [endpoint, redis, ledger] = arguments(["ENDPOINT", "REDIS_URL", "LEDGER"])?;
    let interrupted = interrupted()?;
    let queue = format!("{endpoint}/123456789012/orders");
    let lease = Duration::from_secs(1); // renewed while the handler runs; so long orders wait after a crash
    let options = SqsOptions::new(&queue, format!("{queue}-dead")).visibility(2 * lease);
    let orders = Sqs::new(client(&endpoint), options).await?;

    let store = RedisStore::connect(RedisOptions::single(redis, "billing")).await?;
    // SQS keeps messages for up to 14 days.
    let retention = Duration::from_secs(15 * 24 * 3600);
    let billed = TieredDedup::builder(store).retention(retention).lease(lease).build().await?;
    let consumer = Consumer::builder("billing", billed, id)
        .max_in_flight(IN_FLIGHT)
        // Messages that wait here are hidden from other consumers.
        .max_unacknowledged(2 * IN_FLIGHT)
        .handler_timeout(Duration::from_secs(60))
        .max_attempts(12)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;

    let ledger = Arc::new(Ledger::open(ledger)?);
    let bill = move |order: Delivery<Message>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(&id(&order).unwrap_or_default(), order.token()).await }
    };
    let stats = consumer.run(&orders, bill, interrupted).await?;
    println!("{stats:?}");
    Ok(())
}
