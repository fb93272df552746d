//! Clicks from a Redis stream, marked at sight, with a checkpoint behind each batch: no claim, and
//! no ids in Redis. A click is counted again only if the process died between its effect and the
//! checkpoint.
//!
//! `cargo run --bin redis_streams_log redis://127.0.0.1/ clicks journal ledger.txt`, one process
//! for a stream: what another one has handled is not known here.

use hapax::{Dedup, JournalOptions};
use hapax_brokers::redis_streams::{Group, RedisStreams, field_id};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_stream::{Delivery, LogConsumer};
use redis::streams::StreamId;
use std::sync::Arc;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [redis, stream, journal, ledger] = arguments(["REDIS_URL", "STREAM", "JOURNAL", "LEDGER"])?;
    let interrupted = interrupted()?;
    // The time after which a process that starts again gets what it had not acknowledged.
    let idle = Duration::from_secs(1);
    let clicks =
        RedisStreams::connect(&redis, Group { stream, group: "counting".into(), consumer: "one".into(), idle });
    let clicks = clicks.await?;

    // For longer than producers try again, and than a consumer may lag behind.
    let seen = Dedup::builder()
        .window(Duration::from_secs(3_600))
        .journal(journal, JournalOptions::new().checkpoints(true))
        .build()?;
    let consumer = LogConsumer::builder(seen, field_id)
        .batch(32) // a crash counts up to two batches again
        .max_in_flight(8)
        .handler_timeout(Duration::from_secs(60))
        .max_attempts(3)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;

    let ledger = Arc::new(Ledger::open(ledger)?);
    let count = move |click: Delivery<StreamId>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(&field_id(&click).unwrap_or_default(), click.token()).await }
    };
    let stats = consumer.run(&clicks, count, interrupted).await?;
    println!("{stats:?}");
    Ok(())
}
