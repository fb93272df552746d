//! Measures the cost of a consumer for each message, over a broker in memory and with a handler
//! that does nothing.

use crate::table::{median, row};
use hapax::{Dedup, JournalOptions};
use hapax_store::{InMemoryStore, TieredDedup};
use hapax_stream::{Consumer, Delivery, LogConsumer, Source};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const MESSAGES: u64 = 200_000;
const ROUNDS: usize = 5;

/// Messages whose id is their number.
struct Numbers(Mutex<Range<u64>>);

impl Source for Numbers {
    type Message = u64;
    type Error = Infallible;

    async fn receive(&self, max: usize) -> Result<Option<Vec<u64>>, Infallible> {
        let batch: Vec<u64> = self.0.lock().unwrap_or_else(PoisonError::into_inner).by_ref().take(max).collect();
        Ok((!batch.is_empty()).then_some(batch))
    }

    async fn acknowledge(&self, _: &[Arc<u64>]) -> Result<(), Infallible> {
        Ok(())
    }

    async fn retry(&self, message: &Arc<u64>, _: Duration) -> Result<(), Infallible> {
        panic!("{message} was given back")
    }

    async fn dead_letter(&self, message: &Arc<u64>, why: &str) -> Result<(), Infallible> {
        panic!("{message} was put aside: {why}")
    }
}

async fn handle(_: Delivery<u64>) -> Result<(), Infallible> {
    Ok(())
}

pub async fn run() {
    println!("\n== a consumer, {MESSAGES} messages, a handler that does nothing, records in memory");
    let (mut new, mut duplicate) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let engine = TieredDedup::builder(InMemoryStore::new()).build().await.expect("an engine");
        let consumer =
            Consumer::builder("orders", engine, |number: &u64| Some(number.to_le_bytes())).build().expect("a consumer");
        for nanos in [&mut new, &mut duplicate] {
            let (source, begun) = (Numbers(Mutex::new(0..MESSAGES)), Instant::now());
            consumer.run(&source, handle, std::future::pending()).await.expect("an end");
            nanos.push(begun.elapsed().as_nanos() as f64 / MESSAGES as f64);
        }
        let stats = consumer.stats();
        assert_eq!(
            (stats.handled, stats.duplicates, stats.acknowledged),
            (MESSAGES, MESSAGES, 2 * MESSAGES),
            "{stats:?}"
        );
    }
    let claimed = median(new);
    row("consumer, a new message", claimed, "ns", None, "");
    row("consumer, a duplicate", median(duplicate), "ns", None, "");
    log(claimed).await;
}

/// A consumer of a log, on a disk: a checkpoint and a sync for each batch.
async fn log(claimed: f64) {
    let directory = std::env::temp_dir().join(format!("hapax-consumer-rows-{}", std::process::id()));
    for batch in [256, 4_096, 65_536] {
        let mut new = Vec::new();
        for round in 0..ROUNDS {
            let path = directory.join(format!("{batch}-{round}"));
            let engine = Dedup::builder().journal(path, JournalOptions::new().checkpoints(true));
            let engine = engine.capacity(5 * MESSAGES as usize).build().expect("an engine");
            let id_of = |number: &u64| Some(number.to_le_bytes());
            let consumer = LogConsumer::builder("orders", engine, id_of).batch(batch).build().expect("a consumer");
            let (source, begun) = (Numbers(Mutex::new(0..5 * MESSAGES)), Instant::now());
            let stats = consumer.run(&source, handle, std::future::pending()).await.expect("an end");
            new.push(begun.elapsed().as_nanos() as f64 / (5 * MESSAGES) as f64);
            assert_eq!((stats.handled, stats.acknowledged), (5 * MESSAGES, 5 * MESSAGES), "{stats:?}");
        }
        let new = median(new);
        let what = format!("log consumer, a new message, on disk, batches of {batch}");
        row(&what, new, "ns", Some(("claimed, in memory", claimed)), "");
    }
    let _ = std::fs::remove_dir_all(directory);
}
