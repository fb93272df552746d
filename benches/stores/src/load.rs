//! Callers of an engine.

use hapax::seam::random::mix;
use hapax_store::{Store, TieredDedup};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub const CALLERS: u64 = 256;

/// Returns an id of 16 bytes that nothing else uses, and that looks random.
pub fn id(number: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&mix(number).to_le_bytes());
    id[8..].copy_from_slice(&mix(!number).to_le_bytes());
    id
}

/// Returns numbers that no earlier round has used.
pub fn numbers(count: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let salt = u64::from(std::process::id()) << 40;
    salt | NEXT.fetch_add(count, Ordering::Relaxed)
}

/// Runs callers at the same time, each checking one id after the other. Returns ids a second.
/// `repeated` of a hundred are ids that were checked a moment ago.
pub async fn check<S: Store>(dedup: &TieredDedup<S>, callers: u64, each: u64, repeated: u64) -> f64 {
    let (first, wrong) = (numbers(callers * each), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let (dedup, wrong) = (dedup.clone(), Arc::clone(&wrong));
        tasks.spawn(async move {
            let mut fresh_ones = 0;
            for i in 0..each {
                // Repeats are spread evenly.
                let repeats = fresh_ones > 0 && (i * repeated) % 100 + repeated >= 100;
                fresh_ones += u64::from(!repeats);
                let number = first + caller * each + fresh_ones - 1;
                let verdict = dedup.check(id(number)).await.expect("an answer");
                if verdict.is_fresh() == repeats {
                    wrong.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    tasks.join_all().await;
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(wrong.load(Ordering::Relaxed), 0, "wrong answers");
    (callers * each) as f64 / seconds
}

/// Runs callers that claim and complete each id. Returns ids a second.
pub async fn claim<S: Store>(dedup: &TieredDedup<S>, callers: u64, each: u64) -> f64 {
    let (first, begun) = (numbers(callers * each), Instant::now());
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let dedup = dedup.clone();
        tasks.spawn(async move {
            for i in 0..each {
                let claim = dedup.claim(id(first + caller * each + i)).await.expect("an answer");
                claim.claimed().expect("nobody else has it").complete().await.expect("completed");
            }
        });
    }
    tasks.join_all().await;
    (callers * each) as f64 / begun.elapsed().as_secs_f64()
}
