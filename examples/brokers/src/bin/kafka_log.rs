//! Clicks from a Kafka topic, marked at sight, with a checkpoint behind each batch: no claim, no
//! store. A click is counted again only if the process died between its effect and the checkpoint.
//!
//! `cargo run --bin kafka_log 127.0.0.1:9092 clicks 6000 journal ledger.txt`; 6 s is the shortest
//! session that brokers allow by default. Each process has a directory of its own for its journal.

use hapax::{Dedup, JournalOptions};
use hapax_brokers::kafka::{Kafka, header_id};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_stream::{Delivery, LogConsumer};
use rdkafka::message::OwnedMessage;
use std::sync::Arc;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [brokers, topic, session_ms, journal, ledger] =
        arguments(["BROKERS", "TOPIC", "SESSION_MS", "JOURNAL", "LEDGER"])?;
    let interrupted = interrupted()?;
    let clicks = Kafka::join(&brokers, &topic, "counting", Duration::from_millis(session_ms.parse()?))?;

    // For longer than producers try again, and than a consumer may lag behind.
    let seen = Dedup::builder()
        .window(Duration::from_secs(3_600))
        .journal(journal, JournalOptions::new().checkpoints(true))
        .build()?;
    let consumer = LogConsumer::builder(seen, |click: &OwnedMessage| header_id(click).map(<[u8]>::to_vec))
        .batch(32) // a crash counts up to two batches again
        .max_in_flight(8)
        .handler_timeout(Duration::from_secs(60))
        .max_attempts(3)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;

    let ledger = Arc::new(Ledger::open(ledger)?);
    let count = move |click: Delivery<OwnedMessage>| {
        let ledger = Arc::clone(&ledger);
        async move {
            let id = std::str::from_utf8(header_id(&click).unwrap_or_default())?.to_owned();
            Ok::<(), Failed>(ledger.work(&id, click.token()).await?)
        }
    };
    let stats = consumer.run(&clicks, count, interrupted).await?;
    println!("{stats:?}");
    Ok(())
}
