//! Measures the cost of a consumer for each message, over a broker in memory and with a handler
//! that does nothing.

use crate::table::{median, row};
use hapax_store::{InMemoryStore, TieredDedup};
use hapax_stream::{Consumer, Delivery, Source};
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
            Consumer::builder(engine, |number: &u64| Some(number.to_le_bytes())).build().expect("a consumer");
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
    row("consumer, a new message", median(new), "ns", None, "");
    row("consumer, a duplicate", median(duplicate), "ns", None, "");
}
