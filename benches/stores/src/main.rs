//! Measures the asynchronous engine over real servers, next to the naive way, in one run on one
//! machine: medians of several rounds, interleaved. The answers are checked: a fresh id that is
//! called a duplicate, or the other way round, ends the run.
//!
//! `cargo run --release -- [redis-versus] [postgres-batches]`: without a name, everything.
//! `-- inbox-versus [quick] [PART…]`: see `inbox_versus`.

use testkit::postgres_server;
use testkit::redis_server;

mod inbox_versus;
mod load;
mod postgres_batches;
mod redis_versus;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    if wanted.first().is_some_and(|wanted| wanted == "inbox-versus") {
        return runtime.block_on(inbox_versus::run(&wanted[1..]));
    }
    if wants("redis-versus") {
        runtime.block_on(redis_versus::run());
    }
    if wants("postgres-batches") {
        runtime.block_on(postgres_batches::run());
    }
}
