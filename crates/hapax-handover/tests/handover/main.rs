//! Tests of hand-overs with real engines, over a store in memory with faults, and over S3.

#[cfg(feature = "stream")]
mod consumer;
mod elsewhere;
mod faults;
mod long;
mod s3;
mod s3_server;

use hapax::{Dedup, JournalOptions, SyncMode};
use hapax_handover::object_store::ObjectStore;
use hapax_handover::object_store::local::LocalFileSystem;
use hapax_handover::object_store::memory::InMemory;
use hapax_handover::{Acquired, Handover, HandoverError, HandoverOptions, Owned};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A directory that goes with its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hapax-handover-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns options for small files, with a lease that no machine is too busy for.
fn options() -> HandoverOptions {
    let options = HandoverOptions::new().part_bytes(4 << 10).lease(Duration::from_secs(600));
    options.back_off(Duration::from_millis(1), Duration::from_millis(5))
}

async fn open(acquired: Acquired) -> Owned {
    let journal = JournalOptions::new().sync(SyncMode::System);
    acquired.open(Dedup::builder().capacity(10_000), journal).await.unwrap()
}

fn offset_of(acquired: &Acquired) -> u64 {
    acquired.positions().first().map_or(0, |(_, at)| u64::from_be_bytes(at[..].try_into().unwrap()))
}

/// Checks ids, and takes a checkpoint behind them. Returns how many were fresh.
fn take(owned: &Owned, ids: std::ops::Range<u64>) -> usize {
    let engine = owned.engine().unwrap();
    let fresh = ids.clone().filter(|id| engine.check(id.to_le_bytes()).is_fresh()).count();
    engine.journal().unwrap().checkpoint([("log", ids.end.to_be_bytes())]).unwrap();
    fresh
}

/// Hands a partition over some times, and checks what each owner knows.
async fn hands_over(store: Arc<dyn ObjectStore>, directory: &Path) {
    let handover = Handover::new(store, "hapax/orders", options()).unwrap();
    let mut next = 0;
    let mut before: Option<Owned> = None;
    for turn in 0..5_u64 {
        let acquired = handover.acquire("3", &directory.join(format!("node-{}", turn % 2))).await.unwrap();
        assert_eq!((offset_of(&acquired), acquired.epoch()), (next, turn + 1));
        let owned = open(acquired).await;
        assert_eq!(take(&owned, 0..next), 0, "all of it lies before the position");
        if let Some(before) = before {
            let error = before.publish().await.unwrap_err();
            assert!(matches!(error, HandoverError::Fenced { by, .. } if by == turn + 1), "{error}");
            assert!(matches!(before.engine(), Err(HandoverError::Fenced { .. })));
        }
        for _ in 0..4 {
            assert_eq!(take(&owned, next..next + 500), 500);
            next += 500;
            let published = owned.publish().await.unwrap();
            assert!(published.uploaded_bytes >= 8_000 && published.not_deleted == 0, "{published:?}");
        }
        // In no publication: it comes again.
        let _ = owned.engine().unwrap().check(u64::MAX.to_le_bytes());
        let (engine, end) = (owned.engine().unwrap(), next + 100);
        (next..end).for_each(|id| assert!(engine.check(id.to_le_bytes()).is_fresh()));
        before = Some(owned);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_owner_knows_what_was_published_and_the_last_one_is_fenced() {
    let directory = Temporary::new();
    let store = Arc::new(InMemory::new());
    hands_over(Arc::clone(&store) as Arc<dyn ObjectStore>, &directory.0).await;
}

#[tokio::test]
async fn a_store_without_conditional_puts_is_refused_and_nothing_is_written() {
    let directory = Temporary::new();
    let store = Arc::new(LocalFileSystem::new_with_prefix(&directory.0).unwrap());
    let handover = Handover::new(store, "hapax", options()).unwrap();
    let error = handover.acquire("3", &directory.0.join("local")).await.unwrap_err();
    assert!(matches!(error, HandoverError::NotConditional { .. }), "{error}");
    assert!(error.to_string().contains("use S3"), "{error}");
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_does_not_publish_learns_within_a_lease_that_it_is_fenced() {
    let directory = Temporary::new();
    let options = options().lease(Duration::from_millis(60));
    let handover = Handover::new(Arc::new(InMemory::new()), "hapax", options).unwrap();
    let first = open(handover.acquire("3", &directory.0.join("a")).await.unwrap()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(first.engine().is_ok(), "its lease is renewed");
    let _second = handover.acquire("3", &directory.0.join("b")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    let error = first.engine().unwrap_err();
    assert!(matches!(error, HandoverError::Fenced { .. }), "{error}");
}

#[tokio::test]
async fn an_object_that_is_not_what_was_published_is_refused() {
    let directory = Temporary::new();
    let store = Arc::new(InMemory::new());
    let handover = Handover::new(Arc::clone(&store) as Arc<dyn ObjectStore>, "hapax", options()).unwrap();
    let first = open(handover.acquire("3", &directory.0.join("a")).await.unwrap()).await;
    take(&first, 0..100);
    first.publish().await.unwrap();
    let list = || faults::paths(&store);
    let object = list().await.into_iter().find(|path| path.as_ref().contains("/objects/")).unwrap();
    faults::flip(&store, &object).await;
    let error = handover.acquire("3", &directory.0.join("b")).await.unwrap_err();
    assert!(matches!(error, HandoverError::Damaged { .. }), "{error}");
    faults::flip(&store, &object).await;
    let manifest = list().await.into_iter().find(|path| path.as_ref().ends_with("/manifest")).unwrap();
    faults::flip(&store, &manifest).await;
    let error = handover.acquire("3", &directory.0.join("b")).await.unwrap_err();
    assert!(matches!(error, HandoverError::Damaged { .. }), "{error}");
    faults::flip(&store, &manifest).await;
    let acquired = handover.acquire("3", &directory.0.join("b")).await.unwrap();
    assert_eq!(take(&open(acquired).await, 0..100), 0);
}

#[tokio::test]
async fn what_no_manifest_names_goes_and_what_an_earlier_owner_has_left_goes_when_it_is_old() {
    let directory = Temporary::new();
    let store = Arc::new(InMemory::new());
    let left = faults::orphan(&store, "hapax/3", 1).await;
    for (age, is_gone) in [(Duration::from_secs(24 * 3600), false), (Duration::ZERO, true)] {
        let options = options().orphan_age(age);
        let handover = Handover::new(Arc::clone(&store) as Arc<dyn ObjectStore>, "hapax", options).unwrap();
        let acquired = handover.acquire("3", &directory.0).await.unwrap();
        let next = offset_of(&acquired);
        let owned = open(acquired).await;
        for n in next..next + 40 {
            take(&owned, n..n + 1);
            owned.publish().await.unwrap();
        }
        let paths = faults::paths(&store).await;
        assert!(paths.len() < 30, "{} objects after 40 publications", paths.len());
        // (Of the first epoch are also objects of its own.)
        assert_eq!(!paths.contains(&left), is_gone && owned.epoch() > 1);
    }
}

#[tokio::test]
async fn options_that_make_no_sense_are_named() {
    for (wrong, name) in [
        (options().lease(Duration::ZERO), "lease"),
        (options().part_bytes(1), "part_bytes"),
        (options().request_timeout(Duration::ZERO), "request_timeout"),
        (options().read_timeout(Duration::ZERO), "read_timeout"),
        (options().attempts(0), "attempts"),
        (options().back_off(Duration::from_secs(2), Duration::from_secs(1)), "back_off"),
    ] {
        let error = Handover::new(Arc::new(InMemory::new()), "hapax", wrong).unwrap_err();
        assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
    }
}

#[path = "../../examples/handover.rs"]
mod example;

#[test]
fn the_example_moves_a_partition_there_and_back() {
    example::main().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_takes_longer_to_build_than_a_lease_answers_at_once() {
    let directory = Temporary::new();
    let options = options().lease(Duration::from_millis(900));
    let handover = Handover::new(Arc::new(InMemory::new()), "hapax", options).unwrap();
    let acquired = handover.acquire("3", &directory.0.join("a")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let owned = open(acquired).await;
    assert!(owned.engine().is_ok(), "{:?}", owned.engine().err());
    // Unless another one was faster.
    let acquired = handover.acquire("3", &directory.0.join("a")).await.unwrap();
    let _other = handover.acquire("3", &directory.0.join("b")).await.unwrap();
    let error = acquired.open(Dedup::builder(), JournalOptions::new()).await.unwrap_err();
    assert!(matches!(error, HandoverError::Fenced { epoch: 2, by: 3, .. }), "{error}");
}
