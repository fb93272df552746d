//! A consumer on a hot path: takes a batch, drops what it has seen, handles the rest.
//!
//! `cargo run --example consumer`

use hapax::{Dedup, Int};
use std::time::Duration;

struct Message {
    id: u64,
    cents: u64,
}

/// Returns the deliveries of a broker that delivers at least once: every third message comes again,
/// with the next batch.
fn deliveries() -> impl Iterator<Item = Vec<Message>> {
    let message = |id: u64| Message { id, cents: id % 100 };
    (0..1_000_u64).map(move |batch| {
        let new = batch * 100..(batch + 1) * 100;
        let again = (batch.saturating_sub(1) * 100..batch * 100).step_by(3);
        again.chain(new).map(message).collect()
    })
}

fn main() -> Result<(), hapax::Error> {
    // The window covers the time after which the broker may deliver again, and the capacity the ids
    // that can come in it.
    let dedup = Dedup::builder().window(Duration::from_secs(600)).capacity(200_000).build()?;

    let mut cents = 0;
    let mut verdicts = Vec::new();
    for batch in deliveries() {
        dedup.check_batch(batch.iter().map(|message| Int::from(message.id)), &mut verdicts);
        for (message, verdict) in batch.iter().zip(&verdicts) {
            if verdict.is_fresh() {
                cents += message.cents;
            }
        }
    }

    let stats = dedup.stats();
    println!("{} deliveries, {} of them duplicates", stats.checks(), stats.duplicates_by_window);
    println!("{cents} cents, each counted once; {} ids forgotten early", stats.window.evicted_live);
    assert_eq!(cents, (0..100_000).map(|id| id % 100).sum::<u64>());
    Ok(())
}
