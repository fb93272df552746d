//! Orders from a queue with the protocol of Amazon SQS, each billed once, by any number of
//! processes.
//!
//! `cargo run --bin sqs http://127.0.0.1:9324 redis://127.0.0.1/ ledger.txt`, where there are
//! queues `orders` and `orders-dead`.

use hapax_brokers::sqs::{Message, Sqs, body_id};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use std::sync::Arc;
use std::time::Duration;

/// The number of orders that are billed at a time.
const IN_FLIGHT: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [endpoint, redis, ledger] = arguments(["ENDPOINT", "REDIS_URL", "LEDGER"])?;
    let interrupted = interrupted()?;
    let queue = |name: &str| format!("{endpoint}/000000000000/{name}");
    let lease = Duration::from_secs(1); // renewed while the handler runs; so long orders wait after a crash
    let orders = Sqs::new(&endpoint, &queue("orders"), &queue("orders-dead"), 2 * lease);

    let store = RedisStore::connect(RedisOptions::single(redis).namespace("billing")).await?;
    // SQS keeps messages for up to 14 days.
    let retention = Duration::from_secs(15 * 24 * 3600);
    let billed = TieredDedup::builder(store).retention(retention).lease(lease).build().await?;
    let consumer = Consumer::builder(billed, body_id)
        .max_in_flight(IN_FLIGHT)
        // Messages that wait here are hidden from other consumers.
        .max_unacknowledged(2 * IN_FLIGHT)
        .handler_timeout(Duration::from_secs(60))
        .max_attempts(3)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;

    let ledger = Arc::new(Ledger::open(ledger)?);
    let bill = move |order: Delivery<Message>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(&body_id(&order).unwrap_or_default(), order.token()).await }
    };
    let stats = consumer.run(&orders, bill, interrupted).await?;
    println!("{stats:?}");
    Ok(())
}
