//! Clicks from a Kafka topic, marked on sight, with a checkpoint behind each batch: no claim, no
//! store. A click is counted again only if the process died between its effect and the checkpoint.
//!
//! `cargo run --bin kafka_log 127.0.0.1:9092 clicks 6000 journal ledger.txt`; 6 s is the shortest
//! session that brokers allow by default. Each process has a directory of its own for its journal.

use hapax::{Dedup, JournalOptions};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_kafka::rdkafka::ClientConfig;
use hapax_kafka::{KafkaMessage, KafkaOptions, KafkaSource};
use hapax_message::Described;
use hapax_stream::{Delivery, LogConsumer};
use std::{sync::Arc, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [brokers, topic, session_ms, journal, path] =
        arguments(["BROKERS", "TOPIC", "SESSION_MS", "JOURNAL", "LEDGER"])?;
    let (interrupted, ledger) = (interrupted()?, Arc::new(Ledger::open(path)?));
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "counting").set("session.timeout.ms", session_ms);
    config.set("heartbeat.interval.ms", "700").set("auto.commit.interval.ms", "200");
    let clicks = KafkaSource::subscribe(&config, &[&topic], KafkaOptions::new())?;
    let journaled = Dedup::builder().journal(journal, JournalOptions::new().checkpoints(true));
    let seen = journaled.window(Duration::from_secs(3_600)).build()?; // longer than producers try, or this lags
    let id_of = |click: &KafkaMessage| click.header_bytes("id").map(<[u8]>::to_vec);
    let back_off = (Duration::from_millis(50), Duration::from_secs(1));
    let consumer = LogConsumer::builder("counting", seen, id_of).batch(32); // a crash counts up to two batches again
    let consumer = consumer.max_in_flight(8).max_attempts(3).retry_delay(back_off.0, back_off.1).build()?;
    let count = move |click: Delivery<KafkaMessage>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(click.header("id").unwrap_or_default(), click.token()).await }
    };
    println!("{:?}", consumer.run(&clicks, count, interrupted).await?);
    clicks.close().await;
    Ok(())
}
