//! Clicks from a Redis stream, marked on sight, with a checkpoint behind each batch: no claim, and
//! no ids in Redis. A click is counted again only if the process died between its effect and the
//! checkpoint.
//!
//! `cargo run --bin redis_streams_log redis://127.0.0.1/ clicks journal ledger.txt`, one process
//! for a stream: what another one has handled is not known here.

use hapax::{Dedup, JournalOptions};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_message::Described;
use hapax_redis::{RedisOptions, RedisStream, RedisStreamOptions, StreamEntry};
use hapax_stream::{Delivery, LogConsumer};
use std::{sync::Arc, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [redis, stream, journal, ledger] = arguments(["REDIS_URL", "STREAM", "JOURNAL", "LEDGER"])?;
    let (interrupted, ledger) = (interrupted()?, Arc::new(Ledger::open(ledger)?));
    // The time after which a process that starts again gets what it had not acknowledged.
    let group = RedisStreamOptions::new(stream, "counting", "one").idle(Duration::from_secs(1));
    let clicks = RedisStream::connect(RedisOptions::single(redis, "orders"), group).await?;

    let journaled = Dedup::builder().journal(journal, JournalOptions::new().checkpoints(true));
    let seen = journaled.window(Duration::from_secs(3_600)).build()?; // longer than producers try, or this lags
    let consumer = LogConsumer::builder("counting", seen, |click: &StreamEntry| click.field("id").map(<[u8]>::to_vec))
        .batch(32) // a crash counts up to two batches again
        .max_in_flight(8)
        .max_attempts(3)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;
    let count = move |click: Delivery<StreamEntry>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(click.header("id").unwrap_or_default(), click.token()).await }
    };
    println!("{:?}", consumer.run(&clicks, count, interrupted).await?);
    Ok(())
}
