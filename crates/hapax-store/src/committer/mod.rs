//! The thread that owns an embedded database. It takes what is asked in groups, decides request after request, commits once for the group,
//! and then answers.
//!
//! There is no timer: a group is what has gathered while the group before it was committed. Alone, a caller waits for its own commit only;
//! among many, a commit serves all of them. Nothing touches a disk on a caller's thread.

mod committed;
mod pending;
mod time;

use super::codec;
use super::error::{ErrorKind, StoreError};
use super::key::RecordKey;
use super::record::{Change, Kept};
use super::request::{Answers, Cursor, Expired, Page};
pub use committed::Committed;
use hapax::Timestamp;
use pending::Pending;
pub use pending::Put;
use std::thread::JoinHandle;
pub use time::Time;
use tokio::sync::{mpsc, oneshot};

/// When what a store has acknowledged is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the disk says that it has it: it survives the loss of power.
    #[default]
    Disk,
    /// When the system has it: it survives the end of the process, but not of the system.
    System,
}

/// Calls that wait for the thread; more, and callers wait to be let in.
const QUEUE_CALLS: usize = 64;
/// So many requests, and a group takes no further call.
const GROUP_REQUESTS: usize = 32_768;

/// What the thread owns.
pub trait Database: 'static {
    const BACKEND: &'static str;

    /// Before a group. `writes` says whether anything in it might.
    fn begin(&mut self, writes: bool) -> Result<(), StoreError>;

    /// The time of the next call in the group, which is not before that of the call before.
    fn now(&mut self) -> Timestamp;

    /// What was committed, or [`ErrorKind::Corrupt`].
    fn read(&mut self, key: &[u8]) -> Result<Option<Kept>, StoreError>;

    /// Makes records durable, all of them or none: sorted by key, one of each.
    fn commit(&mut self, puts: Vec<Put>) -> Result<(), CommitError>;

    /// In a group of its own.
    fn expire(&mut self, limit: usize) -> Result<Expired, StoreError>;

    /// In a group of its own.
    fn scan(&mut self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError>;

    /// What can be done to open faster next time.
    fn close(self);
}

/// Why a group was not committed.
pub enum CommitError {
    /// Nothing was done, and the next group may fare better.
    // (fjall does not say so of any error.)
    Undone(StoreError),
    /// Nobody knows what was done, and nothing more is acknowledged.
    Broken(StoreError),
}

/// A group that is being put together.
struct Group<D> {
    database: D,
    pending: Pending,
}

type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// Decides, or is told why it cannot; the rest waits for the commit.
type Decide<D> = Box<dyn FnOnce(Result<&mut Group<D>, StoreError>) -> Reply + Send>;

struct Call<D> {
    kind: Kind,
    requests: usize,
    decide: Decide<D>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reads,
    Writes,
    /// Not in a group with others.
    Alone,
}

/// The callers' side.
pub struct Committer<D> {
    /// None while it is dropped.
    queue: Option<mpsc::Sender<Call<D>>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Database> Committer<D> {
    /// Opens the database on its thread. `what` is opened, for errors.
    pub async fn start(
        what: String,
        open: impl FnOnce() -> Result<D, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (queue, calls) = mpsc::channel(QUEUE_CALLS);
        let (opened, is_open) = oneshot::channel();
        let work = move || match open() {
            Ok(database) => {
                let _ = opened.send(Ok(())); // whoever asked may have gone away: then the queue is closed, too
                run(database, calls);
            }
            Err(error) => drop(opened.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name(format!("hapax {}", D::BACKEND)).spawn(work);
        let thread = thread.map_err(|error| {
            StoreError::caused(ErrorKind::Unavailable, D::BACKEND, format!("no thread to open {what}"), error)
        })?;
        match is_open.await {
            Ok(opened) => opened.map(|()| Committer { queue: Some(queue), thread: Some(thread) }),
            // A library's panic at what is in the files.
            Err(_) => Err(StoreError::new(ErrorKind::Corrupt, D::BACKEND, format!("{what}: opening it panicked"))),
        }
    }

    /// Decides each request on what is kept of its key, and keeps what becomes of it.
    pub async fn change<R, A>(
        &self,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
        decide: fn(Option<&Kept>, &R, Timestamp) -> (A, Change),
    ) -> Answers<A>
    where
        R: Clone + Send + 'static,
        A: Send + 'static,
    {
        self.each(Kind::Writes, requests, key, move |group, key, request, now| {
            let kept = group.find(&key)?;
            let (answer, change) = decide(kept.as_ref(), request, now);
            if let Change::Put(kept) = change {
                group.pending.put(key, &kept);
            }
            Ok(answer)
        })
        .await
    }

    /// Looks at what is kept of each key.
    pub async fn look<A>(&self, keys: &[RecordKey], decide: fn(Option<&Kept>, Timestamp) -> A) -> Answers<A>
    where
        A: Send + 'static,
    {
        let each =
            move |group: &mut Group<D>, key: Vec<u8>, _: &RecordKey, now| Ok(decide(group.find(&key)?.as_ref(), now));
        self.each(Kind::Reads, keys, |key| key, each).await
    }

    /// Keeps a record for each request, whatever is kept.
    pub async fn put<R>(
        &self,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
        kept: fn(&R, Timestamp) -> Kept,
    ) -> Answers<()>
    where
        R: Clone + Send + 'static,
    {
        self.each(Kind::Writes, requests, key, move |group, key, request, now| {
            group.pending.put(key, &kept(request, now));
            Ok(())
        })
        .await
    }

    pub async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        self.call(Kind::Alone, 1, move |group| group.database.expire(limit)).await?
    }

    pub async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        let from = from.cloned();
        self.call(Kind::Alone, 1, move |group| group.database.scan(from.as_ref(), limit)).await?
    }

    async fn each<R, A>(
        &self,
        kind: Kind,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
        decide: impl Fn(&mut Group<D>, Vec<u8>, &R, Timestamp) -> Result<A, StoreError> + Send + 'static,
    ) -> Answers<A>
    where
        R: Clone + Send + 'static,
        A: Send + 'static,
    {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let requests: Vec<(Vec<u8>, R)> =
            requests.iter().map(|request| (key(request).to_stored(), request.clone())).collect();
        self.call(kind, requests.len(), move |group| {
            let now = group.database.now();
            requests.into_iter().map(|(key, request)| decide(group, key, &request, now)).collect()
        })
        .await
    }

    async fn call<A: Send + 'static>(
        &self,
        kind: Kind,
        requests: usize,
        decide: impl FnOnce(&mut Group<D>) -> A + Send + 'static,
    ) -> Result<A, StoreError> {
        let gone = || StoreError::new(ErrorKind::Unavailable, D::BACKEND, "its thread has ended: it must be reopened");
        let (answer, answered) = oneshot::channel();
        let decide = move |group: Result<&mut Group<D>, StoreError>| -> Reply {
            let decided = group.map(decide);
            // Whoever is cancelled hears nothing.
            Box::new(move |committed| drop(answer.send(committed.and(decided))))
        };
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(Call { kind, requests, decide: Box::new(decide) }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

impl<D> Drop for Committer<D> {
    /// Waits until everything that was asked is committed and the database is closed, so that it can be opened again.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it panicked: callers have been told
        }
    }
}

impl<D: Database> Group<D> {
    /// What is kept, with what the group has changed so far.
    fn find(&mut self, key: &[u8]) -> Result<Option<Kept>, StoreError> {
        match self.pending.find(key) {
            Some(value) => codec::decode(value, D::BACKEND).map(Some),
            None => self.database.read(key),
        }
    }
}

/// The thread's work, until nobody can ask any more.
fn run<D: Database>(database: D, mut calls: mpsc::Receiver<Call<D>>) {
    let mut group = Group { database, pending: Pending::default() };
    let mut broken = None;
    let mut left = None;
    while let Some(first) = left.take().or_else(|| calls.blocking_recv()) {
        let mut gathered = vec![first];
        left = gather(&mut gathered, &mut calls);
        if let Err(error) = commit(&mut group, gathered, broken.clone()) {
            broken = Some(error);
        }
    }
    if broken.is_none() {
        group.database.close();
    }
}

/// Takes what is waiting, and returns what must wait for the next group.
fn gather<D>(gathered: &mut Vec<Call<D>>, calls: &mut mpsc::Receiver<Call<D>>) -> Option<Call<D>> {
    let mut requests: usize = gathered.iter().map(|call| call.requests).sum();
    while requests < GROUP_REQUESTS && gathered.iter().all(|call| call.kind != Kind::Alone) {
        let next = calls.try_recv().ok()?;
        if next.kind == Kind::Alone {
            return Some(next);
        }
        requests += next.requests;
        gathered.push(next);
    }
    None
}

/// Decides, commits and answers; an error if nothing more may be acknowledged.
fn commit<D: Database>(
    group: &mut Group<D>,
    calls: Vec<Call<D>>,
    broken: Option<StoreError>,
) -> Result<(), StoreError> {
    let writes = calls.iter().any(|call| call.kind != Kind::Reads);
    if let Err(error) = broken.map_or_else(|| group.database.begin(writes), Err) {
        for call in calls {
            (call.decide)(Err(error.clone()))(Ok(()));
        }
        return Ok(());
    }
    let replies: Vec<Reply> = calls.into_iter().map(|call| (call.decide)(Ok(group))).collect();
    let (committed, goes_on) = match group.database.commit(group.pending.take()) {
        Ok(()) => (Ok(()), Ok(())),
        Err(CommitError::Undone(error)) => (Err(error), Ok(())),
        Err(CommitError::Broken(error)) => (Err(error.clone()), Err(error)),
    };
    for reply in replies {
        reply(committed.clone());
    }
    goes_on
}

#[cfg(test)]
mod tests;
