//! Directories and ids.

pub use crate::random::Random;
use hapax_store::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const DAY: Duration = Duration::from_secs(86_400);

/// Copies the directory of an open store as a kill leaves it: all of one moment. The database
/// writes in the background, so a copy may be of several; of one that is still equal when it is
/// complete, nothing has changed meanwhile.
pub fn copy_of_one_moment(from: &Path, to: &Path) {
    let run = |program: &str, with: &str| {
        let run = std::process::Command::new(program).arg(with).args([from, to]).output();
        run.unwrap().status.success()
    };
    let is_moment = |_| {
        let _ = std::fs::remove_dir_all(to);
        run("cp", "-r") && run("diff", "-rq")
    };
    assert!((0..1000).any(is_moment), "{} never stops changing", from.display());
}

/// A directory of a test's own, removed when this is dropped.
pub struct Directory(PathBuf);

impl Directory {
    /// Returns the path of a directory that is not made yet.
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Directory(std::env::temp_dir().join(format!("hapax-{name}-{}-{number}", std::process::id())))
    }

    pub fn made(name: &str) -> Self {
        let directory = Self::new(name);
        std::fs::create_dir_all(&directory.0).unwrap();
        directory
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the size of all files in it, or in a directory of it.
    pub fn bytes(&self, under: &str) -> u64 {
        fn bytes(path: &Path) -> u64 {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries
                .map(
                    |entry| {
                        if entry.path().is_dir() {
                            bytes(&entry.path())
                        } else {
                            entry.metadata().map_or(0, |m| m.len())
                        }
                    },
                )
                .sum()
        }
        bytes(&self.0.join(under))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub fn key(id: impl AsRef<[u8]>) -> RecordKey {
    RecordKey::new(&Scope::new("test").unwrap(), id)
}

/// Returns a mark by a new attempt.
pub fn mark_of(id: impl AsRef<[u8]>, retention: Duration) -> Mark {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Mark { key: key(id), attempt: NEXT.fetch_add(1, Ordering::Relaxed), retention }
}

pub async fn mark(store: &impl Store, id: &str) -> Marked {
    store.mark(&[mark_of(id, DAY)]).await.unwrap().remove(0).unwrap()
}

pub async fn is_done(store: &impl Store, id: &str) -> bool {
    let known = store.look_up(&[key(id)]).await.unwrap().remove(0).unwrap();
    matches!(known, Known::Completed(_))
}

pub async fn expire_all(store: &impl Store) -> u64 {
    let mut records = 0;
    for _ in 0..10_000 {
        let expired = store.expire(1_000).await.unwrap();
        records += expired.records;
        if !expired.more {
            return records;
        }
    }
    panic!("expiry comes to no end")
}

/// Returns random numbers from `HAPAX_STORE_SEED`, or from another seed every time; it is printed.
pub fn seeded() -> Random {
    let seed = std::env::var("HAPAX_STORE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        u64::from(std::process::id()) << 32 | u64::from(std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos())
    });
    println!("HAPAX_STORE_SEED={seed}");
    Random(seed)
}
