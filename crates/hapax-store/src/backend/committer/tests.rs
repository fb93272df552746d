//! The thread's protocol, on a database that fails when it is told to.

use super::*;
use crate::backend::record::State;
use crate::key::Scope;
use crate::request::{Mark, Marked};
use crate::sync::Mutex;
use crate::{Inspect, Store};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
struct Shared {
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The ends of the next commits.
    ends: VecDeque<End>,
    commits: Vec<usize>,
    begun: Vec<bool>,
    closed: bool,
}

enum End {
    Undone,
    Broken,
    Panics,
    /// Goes on when the other side is dropped.
    Waits(std::sync::mpsc::Receiver<()>),
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Shared>>);

fn error(what: &str) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "fake", what)
}

impl Database for Fake {
    const BACKEND: &'static str = "fake";

    fn begin(&mut self, writes: bool) -> Result<(), StoreError> {
        self.0.lock().unwrap().begun.push(writes);
        Ok(())
    }

    fn now(&mut self) -> Timestamp {
        Timestamp::from_secs(1_000)
    }

    fn spent(&self) -> u64 {
        0
    }

    fn read(&mut self, key: &[u8]) -> Result<Option<StoredRecord>, StoreError> {
        self.0.lock().unwrap().records.get(key).map(|value| codec::decode(value, "fake")).transpose()
    }

    fn commit(&mut self, puts: Vec<Put>, _spent: u64) -> Result<(), CommitError> {
        let end = self.0.lock().unwrap().ends.pop_front();
        match end {
            Some(End::Undone) => return Err(CommitError::Undone(error("full"))),
            Some(End::Broken) => return Err(CommitError::Broken(error("the sync failed"))),
            Some(End::Panics) => panic!("a bug in a library"),
            Some(End::Waits(other)) => drop(other.recv()),
            None => {}
        }
        let mut shared = self.0.lock().unwrap();
        shared.commits.push(puts.len());
        shared.records.extend(puts.into_iter().map(|put| (put.key, put.value)));
        Ok(())
    }

    fn expire(&mut self, _limit: usize) -> Result<Expired, StoreError> {
        Ok(Expired { records: self.0.lock().unwrap().commits.len() as u64, more: false })
    }

    fn list(&mut self, _from: Option<&Cursor>, _limit: usize) -> Result<Listing, StoreError> {
        Err(error("no lists"))
    }

    fn close(self) {
        self.0.lock().unwrap().closed = true;
    }
}

struct Kept(Committer<Fake>);

impl Committed for Kept {
    type Database = Fake;
    const LIMITS: Limits = Limits::batches_of(8);
    const IS_PRIVATE: bool = true;

    fn committer(&self) -> &Committer<Fake> {
        &self.0
    }
}

async fn start(ends: impl IntoIterator<Item = End>) -> (Fake, Arc<Kept>) {
    let fake = Fake::default();
    fake.0.lock().unwrap().ends.extend(ends);
    let database = fake.clone();
    (fake, Arc::new(Kept(Committer::start("it", |_| Ok(database)).await.unwrap())))
}

fn mark_of(id: &str, attempt: u64) -> Mark {
    Mark { key: RecordKey::new(&Scope::default(), id), attempt, retention: Duration::from_secs(60) }
}

async fn mark(store: &Kept, id: &str, attempt: u64) -> Result<Marked, StoreError> {
    store.mark(&[mark_of(id, attempt)]).await?.remove(0)
}

/// Waits until the calls of spawned tasks have come to the point where they wait.
async fn all_wait() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_gathers_during_a_commit_is_decided_in_order_and_committed_as_one() {
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let (fake, store) = start([End::Waits(waits)]).await;
    let asks = |i: u64| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { mark(&store, &format!("{}", i % 10), i + 1).await })
    };
    let first = asks(0);
    while fake.0.lock().unwrap().begun.is_empty() {
        tokio::task::yield_now().await;
    }
    let others: Vec<_> = (1..=30).map(asks).collect();
    all_wait().await;
    drop(go_on);
    assert_eq!(first.await.unwrap().unwrap(), Marked::Fresh);
    for (i, other) in (1..).zip(others) {
        assert_eq!(other.await.unwrap().unwrap() == Marked::Fresh, i < 10, "{i}");
    }
    // 30 calls in one group, of which nine changed something.
    assert_eq!(fake.0.lock().unwrap().commits, [1, 9]);
}

#[tokio::test]
async fn expiry_is_in_a_group_of_its_own() {
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let (fake, store) = start([End::Waits(waits)]).await;
    let asks = |id: &'static str| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { mark(&store, id, 1).await.unwrap() })
    };
    let mut tasks = vec![asks("a"), asks("b")];
    all_wait().await;
    let expiry = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.expire(10).await.unwrap().records }
    });
    all_wait().await;
    tasks.push(asks("c"));
    all_wait().await;
    drop(go_on);
    for task in tasks {
        assert_eq!(task.await.unwrap(), Marked::Fresh);
    }
    let before = expiry.await.unwrap();
    assert!((1..=2).contains(&before), "{before} commits before it, one or two for a and b");
    assert!(fake.0.lock().unwrap().commits.contains(&0));
}

#[tokio::test]
async fn after_a_commit_of_which_nobody_knows_nothing_more_is_acknowledged() {
    let (fake, store) = start([End::Broken]).await;
    for _ in 0..3 {
        let error = mark(&store, "a", 1).await.unwrap_err();
        assert!(error.to_string().contains("the sync failed"), "{error}");
    }
    assert!(store.look_up(&[mark_of("a", 1).key]).await.is_err());
    assert!(store.expire(1).await.is_err());
    assert_eq!(fake.0.lock().unwrap().begun, [true], "the database is not asked again");
    drop(store);
    assert!(!fake.0.lock().unwrap().closed, "nor is anything written to it at the end");
}

#[tokio::test]
async fn after_a_commit_that_was_undone_it_goes_on_without_what_was_decided() {
    let (fake, store) = start([End::Undone]).await;
    assert!(mark(&store, "a", 1).await.unwrap_err().to_string().contains("full"));
    assert_eq!(mark(&store, "a", 2).await.unwrap(), Marked::Fresh);
    assert_eq!(store.list(None, 1).await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(store);
    assert!(fake.0.lock().unwrap().closed);
}

#[tokio::test]
async fn a_panic_on_the_thread_is_an_error_for_all_who_ask() {
    let (_fake, store) = start([End::Panics]).await;
    for _ in 0..3 {
        assert_eq!(mark(&store, "a", 1).await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    let opened = Committer::<Fake>::start("it", |_| panic!("a bug in a library")).await;
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn what_is_kept_and_damaged_is_an_error_of_one_request() {
    let (fake, store) = start([]).await;
    fake.0.lock().unwrap().records.insert(mark_of("a", 1).key.to_stored(), b"?".to_vec());
    let answers = store.mark(&[mark_of("a", 1), mark_of("b", 2)]).await.unwrap();
    assert!(matches!(&answers[..], [Err(error), Ok(Marked::Fresh)] if error.kind() == ErrorKind::Corrupt));
    let stored = StoredRecord {
        state: State::Failed,
        token: 7,
        fingerprint: None,
        until: Timestamp::from_secs(2_000),
        trail: None,
    };
    fake.0.lock().unwrap().records.insert(mark_of("a", 1).key.to_stored(), codec::encode(&stored));
    assert!(matches!(mark(&store, "a", 1).await.unwrap(), Marked::InProgress { .. }));
}
