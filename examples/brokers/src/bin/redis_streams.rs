//! Orders from a Redis stream, each billed once, by any number of processes of a consumer group.
//! The ids are in the same server.
//!
//! `cargo run --bin redis_streams redis://127.0.0.1/ $HOSTNAME ledger.txt`, and
//! `redis-cli XADD orders '*' id o-17`.

use hapax_brokers::redis_streams::{Group, RedisStreams, field_id};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use redis::streams::StreamId;
use std::sync::Arc;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [redis, consumer, ledger] = arguments(["REDIS_URL", "CONSUMER", "LEDGER"])?;
    let interrupted = interrupted()?;
    let lease = Duration::from_secs(1); // renewed while the handler runs; so long orders wait after a crash
    let group = Group { stream: "orders".into(), group: "billing".into(), consumer, idle: lease };
    let orders = RedisStreams::connect(&redis, group).await?;

    let store = RedisStore::connect(RedisOptions::single(redis).namespace("billing")).await?;
    let retention = Duration::from_secs(7 * 24 * 3600);
    let billed = TieredDedup::builder(store).retention(retention).lease(lease).build().await?;
    let consumer = Consumer::builder(billed, field_id)
        .max_in_flight(8)
        .handler_timeout(Duration::from_secs(60))
        .max_attempts(3)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;

    let ledger = Arc::new(Ledger::open(ledger)?);
    let bill = move |order: Delivery<StreamId>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(&field_id(&order).unwrap_or_default(), order.token()).await }
    };
    let stats = consumer.run(&orders, bill, interrupted).await?;
    println!("{stats:?}");
    Ok(())
}
