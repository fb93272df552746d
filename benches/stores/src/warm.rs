//! An engine that owns its ids reads 10 M of them when it starts, and answers meanwhile.

use crate::load::id;
use crate::redis_server;
use crate::table::row;
use hapax_fjall::FjallStore;
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::{Ownership, Record, RecordKey, Scope, Store, TieredDedup};
use std::sync::Arc;
use std::time::{Duration, Instant};

const IDS: u64 = 10_000_000;
const BATCH: u64 = 8_192;
const RETENTION: Duration = Duration::from_secs(24 * 3_600);

async fn fill(store: &impl Store) {
    for part in (0..IDS).step_by(BATCH as usize) {
        let record = |i| Record {
            key: RecordKey::new(&Scope::default(), id(i)),
            retention: RETENTION,
            fingerprint: None,
            result: None,
        };
        let records: Vec<Record> = (part..IDS.min(part + BATCH)).map(record).collect();
        assert!(store.record(&records).await.expect("a batch").into_iter().all(|recorded| recorded.is_ok()));
    }
}

/// Returns the resident memory of this process.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("what Linux says of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1_024.0
}

async fn warm<S: Store>(name: &str, store: S) {
    fill(&store).await;
    let before = resident_bytes();
    let builder = TieredDedup::builder(store).ownership(Ownership::Exclusive).retention(RETENTION);
    let builder = builder.capacity(100_000).history(1e-3, 2 * IDS as usize).timeout(Duration::from_secs(10));
    let engine = Arc::new(builder.build().await.expect("an engine"));
    let begun = Instant::now();
    let warms = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.warm().await }
    });
    let (mut checked, mut peak) = (0_u64, 0_f64);
    while !warms.is_finished() {
        let (old, new) = (checked.wrapping_mul(7_919) % IDS, IDS + checked);
        assert!(engine.check(id(old)).await.expect("an answer").is_duplicate(), "{old} is known");
        assert!(engine.check(id(new)).await.expect("an answer").is_fresh(), "{new} is new");
        checked += 1;
        if checked % 64 == 0 {
            peak = peak.max(resident_bytes() - before);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let warmed = warms.await.expect("no panic").expect("warm");
    let seconds = begun.elapsed().as_secs_f64();
    assert!((IDS..=IDS + checked).contains(&warmed), "{warmed}");
    row(&format!("{name}: warm-up from {IDS} ids"), seconds, "s", None, "");
    row(&format!("{name}: memory, at most"), peak / 1e6, "MB", None, "");
    row(&format!("{name}: right answers meanwhile"), 2.0 * checked as f64, "", None, "");
}

pub async fn run() {
    println!("\n== warm-up");
    let path = std::env::current_dir().expect("a directory").join(format!("target/warm-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    warm("fjall", FjallStore::open(&path).await.expect("a store")).await;
    let _ = std::fs::remove_dir_all(&path);
    if !redis_server::is_missing() {
        let server = redis_server::Server::start(&[]);
        warm("Redis", RedisStore::connect(RedisOptions::single(server.url(), "h")).await.expect("a store")).await;
    }
}
