//! Orders from a Redis stream, each billed once, by any number of processes of a consumer group.
//! The ids are in the same server.
//!
//! `cargo run --bin redis_streams redis://127.0.0.1/ $HOSTNAME ledger.txt`, and
//! `redis-cli XADD orders '*' id o-17`.

use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_message::Described;
use hapax_redis::{RedisOptions, RedisStore, RedisStream, RedisStreamOptions, StreamEntry};
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use std::{sync::Arc, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [redis, consumer, ledger] = arguments(["REDIS_URL", "CONSUMER", "LEDGER"])?;
    let (interrupted, ledger) = (interrupted()?, Arc::new(Ledger::open(ledger)?));
    let redis = RedisOptions::single(redis, "billing");
    let lease = Duration::from_secs(1); // renewed while the handler runs; so long orders wait after a crash
    let group = RedisStreamOptions::new("orders", "billing", consumer).idle(lease);
    let orders = RedisStream::connect(redis.clone(), group).await?;

    let retention = Duration::from_secs(7 * 24 * 3600);
    let billed = TieredDedup::builder(RedisStore::connect(redis).await?).retention(retention).lease(lease);
    let consumer = Consumer::builder("billing", billed.build().await?, |order: &StreamEntry| {
        order.field("id").map(<[u8]>::to_vec)
    })
    .max_in_flight(8)
    .handler_timeout(Duration::from_secs(60))
    .max_attempts(12)
    .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
    .build()?;
    let bill = move |order: Delivery<StreamEntry>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(order.header("id").unwrap_or_default(), order.token()).await }
    };
    println!("{:?}", consumer.run(&orders, bill, interrupted).await?);
    Ok(())
}
