//! fjall, exclusive: fresh ids that no caller waits for, made durable in groups.

use crate::load::{id, numbers};
use crate::table::{median, row};
use hapax_fjall::FjallStore;
use hapax_store::{Mark, Marked, Ownership, RecordKey, Scope, Store, TieredDedup};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
const IDS: u64 = 5_000_000;
const BATCH: u64 = 8_192;
const RETENTION: Duration = Duration::from_secs(24 * 3_600);

fn directory(name: &str) -> PathBuf {
    // The directory is not in /tmp, which may be memory.
    let path =
        std::env::current_dir().expect("a directory").join(format!("target/fjall-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn marks(first: u64, count: u64) -> Vec<Mark> {
    let key = |i| RecordKey::new(&Scope::default(), id(first + i));
    (0..count).map(|i| Mark { key: key(i), attempt: first + i, retention: RETENTION }).collect()
}

/// Makes one mark at a time durable, then inserts if absent in batches. Returns ids a second.
async fn mark(ids: u64, batch: u64) -> f64 {
    let path = directory("marks");
    let store = FjallStore::open(&path).await.expect("a store");
    let (first, begun) = (numbers(ids), Instant::now());
    let mut at_a_time = tokio::task::JoinSet::new();
    let store = std::sync::Arc::new(store);
    let parts = if batch == 1 { 1 } else { 4 };
    for part in 0..parts {
        let store = std::sync::Arc::clone(&store);
        at_a_time.spawn(async move {
            let mut i = part * batch;
            while i < ids {
                let marked = store.mark(&marks(first + i, batch)).await.expect("a batch");
                assert!(marked.into_iter().all(|marked| marked.expect("an answer") == Marked::Fresh));
                i += parts * batch;
            }
        });
    }
    at_a_time.join_all().await;
    let rate = ids as f64 / begun.elapsed().as_secs_f64();
    drop(store);
    std::fs::remove_dir_all(&path).expect("removed");
    rate
}

/// The longest time that ids wait to be written behind.
const GROUP: Duration = Duration::from_millis(5);

/// Measures the engine. Returns ids a second until all are durable; seconds to reopen; bytes an id;
/// seconds to warm.
async fn engine() -> (f64, f64, f64, f64) {
    let path = directory("engine");
    let store = FjallStore::open(&path).await.expect("a store");
    let build = |store| {
        TieredDedup::builder(store)
            .ownership(Ownership::Exclusive)
            .retention(RETENTION)
            .capacity(IDS as usize)
            .history(1e-4, 2 * IDS as usize)
            .build()
    };
    let dedup = build(store).await.expect("an engine");
    dedup.warm().await.expect("warm");
    let (first, begun) = (numbers(IDS), Instant::now());
    let mut flushed = Instant::now();
    for part in (0..IDS).step_by(BATCH as usize) {
        let ids = (part..IDS.min(part + BATCH)).map(|i| id(first + i));
        assert!(dedup.check_batch(ids).await.into_iter().all(|verdict| verdict.expect("an answer").is_fresh()));
        if flushed.elapsed() >= GROUP {
            dedup.flush().await.expect("durable");
            flushed = Instant::now();
        }
    }
    dedup.flush().await.expect("durable");
    let rate = IDS as f64 / begun.elapsed().as_secs_f64();
    dedup.shutdown(Duration::from_secs(30)).await.expect("shut down");
    drop(dedup);
    // The store is closed when the last task that holds it has ended.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    let store = loop {
        match FjallStore::open(&path).await {
            Ok(store) => break store,
            Err(_) if begun.elapsed() < Duration::from_secs(30) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    };
    let reopened = begun.elapsed().as_secs_f64();
    let bytes = size(&path) as f64 / IDS as f64;
    let dedup = build(store).await.expect("an engine");
    let begun = Instant::now();
    assert_eq!(dedup.warm().await.expect("warm"), IDS);
    let warm = begun.elapsed().as_secs_f64();
    assert!(dedup.check(id(first)).await.expect("an answer").is_duplicate());
    drop(dedup);
    let _ = std::fs::remove_dir_all(&path);
    (rate, reopened, bytes, warm)
}

fn size(path: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(
            |entry| if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().map_or(0, |it| it.len()) },
        )
        .sum()
}

pub async fn run() {
    println!("\n== fjall, exclusive, {IDS} fresh ids, durable");
    let [mut one, mut absent, mut ours, mut reopen, mut bytes, mut warm] = [const { Vec::new() }; 6];
    for _ in 0..ROUNDS {
        one.push(mark(2_000, 1).await);
        absent.push(mark(IDS, 4_096).await);
        let engine = engine().await;
        ours.push(engine.0);
        reopen.push(engine.1);
        bytes.push(engine.2);
        warm.push(engine.3);
    }
    let (one, absent, ours) = (median(one), median(absent), median(ours));
    row("one durable mark at a time", one, "ids/s", None, "");
    row("insert if absent, 4 x 4,096", absent, "ids/s", None, "");
    row("engine, durable every 5 ms", ours, "ids/s", Some(("one at a time", one)), "target: 40 x");
    row("engine, durable every 5 ms", ours, "ids/s", Some(("insert if absent", absent)), "target: 2.5 x");
    row("reopened in", median(reopen), "s", None, "target: 1 s");
    row("on disk", median(bytes), "B/id", None, "");
    row("warm-up", IDS as f64 / median(warm), "ids/s", None, "");
}
