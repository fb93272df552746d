//! Many deliveries of one hot key.

use hapax::Key;
use hapax_patterns::hot_key::{Turn, TurnError, once_per_key};
use hapax_sqlite::{SqliteOptions, SqliteStore};
use hapax_store::TieredDedup;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{sleep, timeout};

const CONSUMERS: usize = 8;
const CONNECTIONS: usize = 4;
const LEASE: Duration = Duration::from_millis(400);

/// A database of a test's own.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hapax-patterns-{name}-{}.db", std::process::id()));
        let file = File(path);
        file.remove();
        file
    }

    fn remove(&self) {
        for more in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{more}", self.0.display()));
        }
    }

    /// Returns an engine, as each process has one.
    async fn open(&self) -> TieredDedup<SqliteStore> {
        let store = SqliteOptions::new().table("turns").open(&self.0).await.expect("a store");
        TieredDedup::builder(store).lease(LEASE).build().await.expect("an engine")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.remove();
    }
}

fn key(text: &str) -> Key {
    let mut key = Key::new();
    key.text("ranking").text(text);
    key
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Delivers a message until it is done. Returns how often it came.
async fn delivered<F: Future<Output = Result<(), &'static str>>>(
    dedup: Arc<TieredDedup<SqliteStore>>,
    key: Key,
    work: impl Fn() -> F,
) -> usize {
    for delivery in 1..1_000 {
        match once_per_key(&dedup, &key, &work).await {
            Ok(Turn::Done) => return delivery,
            Ok(Turn::Later(after)) => sleep(after.min(Duration::from_millis(20))).await,
            Err(TurnError::Work(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it is never done")
}

#[test]
fn a_hot_key_is_worked_on_once_also_after_failures_and_deaths() {
    runtime().block_on(async {
        let file = File::new("hot");
        let mut consumers = Vec::new();
        for _ in 0..CONSUMERS {
            consumers.push(Arc::new(file.open().await));
        }
        for round in 0..5 {
            let key = key(&format!("shop-{round}"));
            // One is killed at its work: its claim is neither completed nor released.
            let claim = consumers[0].claim(&key).await.expect("a store").claimed().expect("it is free");
            std::mem::forget(claim);
            let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let mut deliveries = Vec::new();
            for number in 0..4 * CONSUMERS {
                let counts = Arc::clone(&counts);
                let work = move || {
                    let counts = Arc::clone(&counts);
                    async move {
                        let [begun, done] = &*counts;
                        if begun.fetch_add(1, Ordering::Relaxed) < 2 {
                            return Err("the first two fail");
                        }
                        sleep(Duration::from_millis(5)).await;
                        done.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    }
                };
                let dedup = Arc::clone(&consumers[number % CONSUMERS]);
                deliveries.push(tokio::spawn(delivered(dedup, key.clone(), work)));
            }
            let mut count = 0;
            for delivery in deliveries {
                count += delivery.await.expect("it ends");
            }
            println!("hot key: {count} deliveries of {} messages", 4 * CONSUMERS);
            assert_eq!(counts[1].load(Ordering::Relaxed), 1);
        }
    });
}

/// Ranks a shop after each of two changes, at the times in which they are covered. Returns the
/// changes that the last ranking has.
async fn ranked(dedup: &TieredDedup<SqliteStore>, key_of: impl Fn(u32) -> Key) -> u32 {
    let (changes, ranking) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for moment in [12, 13] {
        changes.fetch_add(1, Ordering::Relaxed);
        let work = async || {
            ranking.store(changes.load(Ordering::Relaxed), Ordering::Relaxed);
            Ok::<_, &'static str>(())
        };
        assert!(once_per_key(dedup, &key_of(moment), work).await.is_ok_and(|turn| turn == Turn::Done));
    }
    ranking.into_inner() as u32
}

#[test]
fn a_key_of_shop_and_moment_covers_each_change_and_one_of_the_shop_alone_is_found_out() {
    runtime().block_on(async {
        let file = File::new("moments");
        let dedup = file.open().await;
        assert_eq!(ranked(&dedup, |moment| key(&format!("shop-17, as of {moment}:00"))).await, 2);
        assert_eq!(ranked(&dedup, |_| key("shop-17")).await, 1, "the second change is in no ranking");
    });
}

/// Returns true if a message with another key is done while as many messages of a hot key are at
/// hand as there are connections, and the first of them takes long.
async fn others_go_on(hot: impl AsyncFn(), cold: impl Future<Output = bool>) -> bool {
    let all = futures_util::future::join_all((0..CONNECTIONS).map(|_| hot()));
    let cold = async {
        sleep(Duration::from_millis(100)).await;
        cold.await
    };
    tokio::select! {
        done = cold => done,
        _ = all => panic!("the hot key takes an hour"),
    }
}

#[test]
fn a_hot_key_leaves_connections_to_others_and_a_row_lock_is_found_out() {
    runtime().block_on(async {
        let (file, pool) = (File::new("pool"), Semaphore::new(CONNECTIONS));
        let dedup = file.open().await;
        let connection = async || timeout(Duration::from_millis(50), pool.acquire()).await.map_err(|_| "none is left");
        let claimed = async || {
            let work = async || {
                let _connection = connection().await?;
                sleep(Duration::from_secs(3_600)).await;
                Ok::<_, &'static str>(())
            };
            // The others are given back; here they do not come again.
            match once_per_key(&dedup, &key("hot"), work).await {
                Ok(Turn::Later(_)) => std::future::pending().await,
                other => panic!("{other:?}"),
            }
        };
        let cold = async {
            let work = async || connection().await.map(|_connection| ());
            once_per_key(&dedup, &key("cold"), work).await.is_ok_and(|turn| turn == Turn::Done)
        };
        assert!(others_go_on(claimed, cold).await, "connections are left for others");

        // A row lock is waited for with a connection in hand.
        let row = Mutex::new(());
        let locked = async || {
            let _connection = connection().await.expect("there are as many");
            let _row = row.lock().await;
            sleep(Duration::from_secs(3_600)).await;
        };
        let cold = async { connection().await.is_ok() };
        assert!(!others_go_on(locked, cold).await, "no connection is left for others");
    });
}
