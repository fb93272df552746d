//! `FjallStore`.

use hapax::{ManualClock, Timestamp};
use hapax_fjall::{FjallOptions, FjallStore};
use hapax_store::*;
use hapax_testing::store::{Fixture, StoreTime, verify_store};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::directory::{Directory, copy_of_one_moment};
use testkit::long;
use testkit::stores::*;

const HOUR: Duration = Duration::from_secs(3_600);

pub async fn open(path: &Path, clock: &ManualClock) -> FjallStore {
    FjallOptions::new().clock(clock.clone()).open(path).await.unwrap()
}

/// A store that is closed and opened again whenever no other task has it.
struct Reopening {
    clock: ManualClock,
    bucket: Duration,
    store: Mutex<Option<Arc<FjallStore>>>,
    /// Removed after the store is closed.
    directory: Directory,
}

impl Reopening {
    fn new(bucket: Duration) -> Self {
        Reopening { clock: clock_at(0), bucket, store: Mutex::default(), directory: Directory::new("fjall") }
    }
}

impl Fixture for Reopening {
    type Store = Arc<FjallStore>;

    async fn open(&self) -> Arc<FjallStore> {
        let open = self.store.lock().unwrap().take();
        let store = match open {
            Some(store) if Arc::strong_count(&store) > 1 => store,
            other => {
                drop(other);
                let options = FjallOptions::new().clock(self.clock.clone()).bucket(self.bucket);
                Arc::new(options.open(self.directory.path()).await.unwrap())
            }
        };
        *self.store.lock().unwrap() = Some(Arc::clone(&store));
        store
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn time(&self) -> StoreTime {
        StoreTime::EXACT
    }

    /// It syncs all that it writes.
    fn is_slow(&self) -> bool {
        long(true, false)
    }
}

#[test]
fn it_is_what_stores_promise() {
    runtime().block_on(verify_store(&Reopening::new(HOUR / 8))).unwrap();
}

#[test]
fn it_is_what_stores_promise_when_almost_every_case_has_buckets_of_its_own() {
    runtime().block_on(verify_store(&Reopening::new(Duration::from_micros(50)))).unwrap();
}

#[test]
fn only_one_has_it_open() {
    let directory = Directory::new("fjall");
    runtime().block_on(async {
        let store = open(directory.path(), &clock_at(0)).await;
        assert_eq!(mark(&store, "a").await, Marked::Fresh);
        let error = FjallStore::open(directory.path()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains(directory.path().to_str().unwrap()), "{error}");
        assert!(store.is_private());
        drop(store);
        assert!(is_done(&open(directory.path(), &clock_at(0)).await, "a").await);
    });
}

/// Returns the size of all files below a directory.
fn bytes(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| {
        if entry.path().is_dir() { bytes(&entry.path()) } else { entry.metadata().map_or(0, |about| about.len()) }
    };
    entries.map(size).sum()
}

#[test]
fn what_expires_is_dropped_bucket_after_bucket_and_the_disk_shrinks() {
    let (directory, clock) = (Directory::new("fjall"), clock_at(0));
    let an_hour: u64 = long(1_600, 10_000);
    runtime().block_on(async {
        let mut store = open(directory.path(), &clock).await;
        let mut sizes = Vec::new();
        for hour in 0..30u64 {
            for batch in 0..4 {
                let ids = (0..an_hour / 4).map(|i| format!("{hour} {batch} {i} {}", "x".repeat(30)));
                let marks: Vec<Mark> = ids.map(|id| mark_of(id, 8 * HOUR)).collect();
                assert!(store.mark(&marks).await.unwrap().iter().all(|marked| matches!(marked, Ok(Marked::Fresh))));
            }
            clock.advance(HOUR);
            let removed = expire_all(&store).await;
            assert!(
                removed == 0 || (an_hour * 9 / 10..=an_hour * 11 / 10).contains(&removed),
                "hour {hour}: {removed} records removed"
            );
            if hour % 5 == 4 {
                // After it is closed, everything is in its files.
                drop(store);
                sizes.push(bytes(&directory.path().join("keyspaces")));
                store = open(directory.path(), &clock).await;
            }
            let id = |hour: u64| format!("{hour} 3 7 {}", "x".repeat(30));
            assert!(is_done(&store, &id(hour)).await && is_done(&store, &id(hour.saturating_sub(6))).await);
            assert!(hour < 9 || !is_done(&store, &id(hour - 8)).await);
        }
        println!("sizes: {sizes:?}, and a log of {}", bytes(directory.path()) - sizes[5]);
        assert!(sizes[5] < sizes[1] * 3 / 2, "ten hours took {}, and thirty take {}", sizes[1], sizes[5]);
        clock.advance(10 * HOUR);
        let removed = expire_all(&store).await;
        assert!(removed > 6 * an_hour, "{removed} records removed");
        drop(store);
        assert!(
            bytes(&directory.path().join("keyspaces")) < sizes[5] / 10,
            "all is over, and takes {} of {}",
            bytes(&directory.path().join("keyspaces")),
            sizes[5]
        );
    });
}

/// Checks that a copy is written to the newest bucket, and hidden records stay hidden as long as
/// they are there.
#[test]
fn what_was_changed_does_not_come_back_when_buckets_are_dropped() {
    let (directory, clock) = (Directory::new("fjall"), clock_at(0));
    runtime().block_on(async {
        let store = FjallOptions::new().clock(clock.clone()).bucket(HOUR).open(directory.path()).await.unwrap();
        for id in ["forgotten", "recorded"] {
            assert_eq!(mark(&store, id).await, Marked::Fresh);
        }
        clock.advance(2 * HOUR);
        store.forget(&[key("forgotten")]).await.unwrap();
        let shorter = Record { key: key("recorded"), retention: HOUR, fingerprint: None, result: None };
        store.record(&[shorter]).await.unwrap();
        for hours in 2..40 {
            clock.advance(HOUR);
            expire_all(&store).await;
            assert!(!is_done(&store, "forgotten").await && !is_done(&store, "recorded").await, "hour {hours}");
            store
                .record(&[Record { key: key("other"), retention: HOUR, fingerprint: None, result: None }])
                .await
                .unwrap();
        }
    });
}

#[test]
fn a_clock_that_was_set_back_brings_nothing_back() {
    let (directory, clock) = (Directory::new("fjall"), clock_at(0));
    runtime().block_on(async {
        let start = hapax::Clock::now(&clock);
        let store = open(directory.path(), &clock).await;
        store.mark(&[mark_of("over", HOUR), mark_of("kept", 3 * HOUR)]).await.unwrap();
        clock.advance(2 * HOUR);
        assert!(!is_done(&store, "over").await);
        let token = claim(&store, "c").await;
        drop(store);

        clock.set(start);
        let store = open(directory.path(), &clock).await;
        assert!(!is_done(&store, "over").await && is_done(&store, "kept").await);
        assert!(!is_done(&store, "c").await);
        // Time goes on, from where it was.
        clock.advance(HOUR + Duration::from_secs(1));
        assert!(!is_done(&store, "kept").await);
        assert!(claim(&store, "c").await > token);
    });
}

/// Checks tokens also with every record dropped that had one.
#[test]
fn tokens_grow_after_everything_was_dropped_and_the_clock_set_back() {
    let (directory, clock) = (Directory::new("fjall"), clock_at(0));
    runtime().block_on(async {
        let mut last = 0;
        for opening in 0..5 {
            clock.set(Timestamp::from_secs(1_700_000_000 - opening * 1_000));
            let store = open(directory.path(), &clock).await;
            let token = claim(&store, "c").await;
            assert!(token > last);
            last = token;
            clock.advance(2 * HOUR);
            assert!(expire_all(&store).await >= 1);
        }
    });
}

#[test]
fn other_things_are_refused_and_named() {
    let clock = clock_at(0);
    runtime().block_on(async {
        let refused = async |directory: &Directory, kind| {
            let error = FjallOptions::new().clock(clock.clone()).open(directory.path()).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(directory.path().to_str().unwrap()), "{error}");
        };
        let others = Directory::new("fjall");
        std::fs::write(others.path().join("letter.txt"), "Dear").unwrap();
        refused(&others, ErrorKind::Misconfigured).await;
        assert_eq!(std::fs::read_dir(others.path()).unwrap().count(), 1, "nothing was made there");

        let file = Directory::new("fjall");
        std::fs::remove_dir(file.path()).unwrap();
        std::fs::write(file.path(), "no directory").unwrap();
        refused(&file, ErrorKind::Misconfigured).await;
        std::fs::remove_file(file.path()).unwrap();

        let foreign = Directory::new("fjall");
        let database = ::fjall::Database::builder(foreign.path()).open().unwrap();
        database.keyspace("accounts", Default::default).unwrap().insert("a", "b").unwrap();
        drop(database);
        refused(&foreign, ErrorKind::Misconfigured).await;

        let later = Directory::new("fjall");
        assert_eq!(mark(&open(later.path(), &clock).await, "a").await, Marked::Fresh);
        change(&later, &[0xff], |row| row[0] = 9);
        refused(&later, ErrorKind::Misconfigured).await;
        change(&later, &[0xff], |row| row[0] = 1);
        change(&later, &[0xff], |row| row.truncate(20));
        refused(&later, ErrorKind::Corrupt).await;

        let zero = FjallOptions::new().bucket(Duration::ZERO).open(Directory::new("fjall").path()).await.unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::Misconfigured);
    });
}

/// Changes the records without the store.
fn change(directory: &Directory, key: &[u8], change: impl Fn(&mut Vec<u8>)) {
    let database = ::fjall::Database::builder(directory.path()).open().unwrap();
    let keyspace = database.keyspace("bucket-0000000000000000", Default::default).unwrap();
    let mut value = keyspace.get(key).unwrap().expect("it is there").to_vec();
    change(&mut value);
    keyspace.insert(key, value).unwrap();
    database.persist(::fjall::PersistMode::SyncAll).unwrap();
}

#[test]
fn a_damaged_record_is_an_error_of_its_own() {
    let (directory, clock) = (Directory::new("fjall"), clock_at(0));
    runtime().block_on(async {
        let store = open(directory.path(), &clock).await;
        for id in ["a", "b"] {
            mark(&store, id).await;
        }
        drop(store);
        for damage in [|value: &mut Vec<u8>| value[0] ^= 0x80, |value: &mut Vec<u8>| value.truncate(5)] {
            change(&directory, &key("a").to_stored(), damage);
            let store = open(directory.path(), &clock).await;
            let [Err(error), Ok(Known::Completed(_))] = &store.look_up(&[key("a"), key("b")]).await.unwrap()[..] else {
                panic!("a is damaged, b is not")
            };
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            let marked = store.mark(&[mark_of("a", DAY), mark_of("b", DAY)]).await.unwrap();
            assert!(matches!(marked[..], [Err(_), Ok(Marked::Duplicate { .. })]), "{marked:?}");
            assert_eq!(store.scan(None, 10).await.unwrap_err().kind(), ErrorKind::Corrupt);
        }
    });
}

/// Checks the files that an interrupted making of a store leaves: the library's files, without the
/// last one, or with a part of it.
#[test]
fn a_store_whose_making_was_interrupted_is_made() {
    runtime().block_on(async {
        for marker in [None, Some(""), Some("FJL")] {
            let directory = Directory::new("fjall");
            std::fs::create_dir(directory.path().join("keyspaces")).unwrap();
            for (file, content) in [("lock", Some("")), ("0.jnl", Some("")), ("version", marker)] {
                if let Some(content) = content {
                    std::fs::write(directory.path().join(file), content).unwrap();
                }
            }
            assert_eq!(mark(&FjallStore::open(directory.path()).await.unwrap(), "a").await, Marked::Fresh);
            assert!(is_done(&FjallStore::open(directory.path()).await.unwrap(), "a").await);
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_until_it_is_reopened_and_loses_nothing() {
    let disk = Directory::new("small-disk");
    let _mounted = match testkit::mounted::Mounted::in_memory(disk.path(), long("16m", "24m")) {
        Ok(mounted) => mounted,
        Err(why) => return testkit::skipped(format_args!("a file system of its own takes root: {why}")),
    };
    let (path, clock) = (disk.path().join("store"), clock_at(0));
    runtime().block_on(async {
        let store = open(&path, &clock).await;
        let batch = |n: u64| (0..500).map(move |i| format!("{n} {i} {}", "x".repeat(30)));
        let (mut acknowledged, mut failed) = (0, None);
        for n in 0..2_000 {
            match store.mark(&batch(n).map(|id| mark_of(id, DAY)).collect::<Vec<_>>()).await {
                Ok(_) => acknowledged += 1,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let failed = failed.expect("so few MiB are not enough for a million ids");
        println!("after {acknowledged} batches: {failed}");
        assert_eq!(failed.kind(), ErrorKind::Unavailable);
        for _ in 0..3 {
            assert!(store.mark(&[mark_of("another", DAY)]).await.is_err() && store.look_up(&[key("x")]).await.is_err());
        }
        drop(store);
        // With room again, as an operator would make it.
        let remount = std::process::Command::new("mount").args(["-o", "remount,size=256m"]).arg(disk.path()).output();
        assert!(remount.unwrap().status.success());
        let store = open(&path, &clock).await;
        for n in 0..acknowledged {
            let keys: Vec<RecordKey> = batch(n).map(key).collect();
            let known = store.look_up(&keys).await.unwrap();
            assert!(known.iter().all(|known| matches!(known, Ok(Known::Completed(_)))), "batch {n} was acknowledged");
        }
        assert_eq!(mark(&store, "another").await, Marked::Fresh);
    });
}

#[tokio::test]
async fn a_store_that_was_killed_after_a_release_opens_again() {
    let (directory, killed, clock) = (Directory::new("fjall"), Directory::new("fjall-killed"), clock_at(0));
    let path = directory.path().join("store");
    let store = open(&path, &clock).await;
    let key = RecordKey::new(&Scope::default(), "id");
    let claim = ClaimRequest {
        key: key.clone(),
        attempt: 1,
        lease: 2 * HOUR,
        fingerprint: None,
        held_by: None,
        doubt: Duration::ZERO,
    };
    let Claimed::Claimed { token, .. } = store.claim(&[claim]).await.unwrap().remove(0).unwrap() else {
        panic!("nobody else has it");
    };
    // In another bucket, with nothing in it that lasts.
    clock.advance(HOUR);
    assert_eq!(store.release(&[Hold { key, token }]).await.unwrap().remove(0).unwrap(), Held::Done);
    let copy = killed.path().join("store");
    copy_of_one_moment(&path, &copy);
    drop(open(&copy, &clock).await);
}
