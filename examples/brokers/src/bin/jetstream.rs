//! Orders from NATS JetStream, each billed once, by any number of processes.
//!
//! `cargo run --bin jetstream nats://127.0.0.1:4222 redis://127.0.0.1/ ledger.txt`, where there is
//! a stream `ORDERS` with a durable pull consumer `billing`, and a stream for `dead.billing`.

use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_message::Described;
use hapax_nats::{JetStream, JetStreamOptions, Message};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use std::sync::Arc;
use std::time::Duration;

/// The number of orders that are billed at a time.
const IN_FLIGHT: usize = 8;

fn id(order: &Message) -> Option<String> {
    order.id().and_then(|id| String::from_utf8(id.into_owned()).ok())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [url, redis, ledger] = arguments(["NATS_URL", "REDIS_URL", "LEDGER"])?;
    let interrupted = interrupted()?;
    let context = async_nats::jetstream::new(async_nats::connect(url).await?);
    let billing = context.get_consumer_from_stream("billing", "ORDERS").await?;
    let options = JetStreamOptions::new("dead.billing").ack_pending_min(2 * IN_FLIGHT);
    let orders = JetStream::new(context, billing, options).await?;

    // The store is shared by all processes that bill, and keeps ids for longer than the stream
    // keeps its messages.
    let store = RedisStore::connect(RedisOptions::single(redis, "billing")).await?;
    let billed = TieredDedup::builder(store)
        .retention(Duration::from_secs(7 * 24 * 3600))
        .lease(Duration::from_secs(1)) // renewed while the handler runs; so long orders wait after a crash
        .build()
        .await?;
    let consumer = Consumer::builder("billing", billed, id)
        .max_in_flight(IN_FLIGHT)
        .max_unacknowledged(2 * IN_FLIGHT) // those being billed, and those being completed
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
