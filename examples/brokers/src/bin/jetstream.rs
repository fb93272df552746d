//! Orders from NATS JetStream, each billed once, by any number of processes.
//!
//! `cargo run --bin jetstream nats://127.0.0.1:4222 redis://127.0.0.1/ ledger.txt`, where there is
//! a stream `ORDERS` with a durable pull consumer `billing`.

use async_nats::jetstream::Message;
use hapax_brokers::jetstream::{JetStream, message_id};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use std::sync::Arc;
use std::time::Duration;

/// The number of orders that are billed at a time. As many are fetched ahead.
const IN_FLIGHT: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [url, redis, ledger] = arguments(["NATS_URL", "REDIS_URL", "LEDGER"])?;
    let interrupted = interrupted()?;
    let orders = JetStream::connect(&url, "ORDERS", "billing", IN_FLIGHT).await?;

    // The store is shared by all processes that bill, and keeps ids for longer than the stream
    // keeps its messages.
    let store = RedisStore::connect(RedisOptions::single(redis).namespace("billing")).await?;
    let billed = TieredDedup::builder(store)
        .retention(Duration::from_secs(7 * 24 * 3600))
        .lease(Duration::from_secs(1)) // renewed while the handler runs; so long orders wait after a crash
        .build()
        .await?;
    let consumer = Consumer::builder(billed, |order: &Message| message_id(order).map(str::to_owned))
        .max_in_flight(IN_FLIGHT)
        .max_unacknowledged(2 * IN_FLIGHT) // those being billed, and those being completed
        .handler_timeout(Duration::from_secs(60))
        .max_attempts(3)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;

    let ledger = Arc::new(Ledger::open(ledger)?);
    let bill = move |order: Delivery<Message>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(message_id(&order).unwrap_or_default(), order.token()).await }
    };
    let stats = consumer.run(&orders, bill, interrupted).await?;
    println!("{stats:?}");
    Ok(())
}
