//! The thread that owns an embedded database. It takes calls in groups, decides request after
//! request, commits once for the whole group, and then answers.
//!
//! There is no timer: a group holds the calls that have gathered while the previous group was
//! committed. A lone caller waits for its own commit only; among many callers, one commit serves
//! all of them. Nothing touches a disk on a caller's thread.

mod pending;
mod place;
mod time;

use crate::backend::codec;
use crate::backend::decided::{Decided, Request};
use crate::backend::record::{Change, Moment, StoredRecord};
use crate::error::{ErrorKind, StoreError};
use crate::inspect::Listing;
use crate::key::RecordKey;
use crate::request::{Answers, Cursor, Expired, Limits};
use hapax::Timestamp;
use pending::Pending;
pub use pending::Put;
pub use place::Place;
use std::fmt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
pub use time::Time;
use tokio::sync::{mpsc, oneshot};

/// The time at which acknowledged changes are durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Durability {
    /// Durable when the disk reports it: acknowledged changes survive the loss of power.
    #[default]
    Disk,
    /// Durable when the operating system has it: acknowledged changes survive the end of the
    /// process, but not of the system.
    System,
}

/// The number of calls that wait for the thread; further callers wait for a place in the queue.
const QUEUE_CALLS: usize = 64;
/// The number of requests from which on a group takes no further call.
const GROUP_REQUESTS: usize = 32_768;

/// The database that the thread owns. The committer adds the path to its errors.
pub trait Database: 'static {
    /// The backend's name.
    const BACKEND: &'static str;

    /// Begins a group. `writes` is false if nothing in the group can write.
    fn begin(&mut self, writes: bool) -> Result<(), StoreError>;

    /// Returns the time of the next call in the group, which is not before that of the previous
    /// call.
    fn now(&mut self) -> Timestamp;

    /// Returns the largest token that the store has given to any claim and committed, or a larger
    /// number. It outlives the process.
    fn spent(&self) -> u64;

    /// Returns the committed record, or [`ErrorKind::Corrupt`].
    fn read(&mut self, key: &[u8]) -> Result<Option<StoredRecord>, StoreError>;

    /// Makes records durable, all of them or none, and with them that `spent` may be the largest
    /// token that was given. They are sorted by key, one of each.
    fn commit(&mut self, puts: Vec<Put>, spent: u64) -> Result<(), CommitError>;

    /// Removes expired records, in a group of its own.
    fn expire(&mut self, limit: usize) -> Result<Expired, StoreError>;

    /// Returns a page of a list of records, in a group of its own.
    fn list(&mut self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError>;

    /// Does what makes the next opening faster.
    fn close(self);
}

/// The reason for which a group was not committed.
pub enum CommitError {
    /// Nothing was done, and the next group may succeed.
    // (fjall does not say so of any error.)
    Undone(StoreError),
    /// It is unknown what was done, and nothing more is acknowledged.
    Broken(StoreError),
}

/// A group that is being put together.
struct Group<D> {
    database: D,
    path: PathBuf,
    pending: Pending,
    /// The largest token that this process has given, or has decided to give.
    spent: u64,
}

type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// The decision of a call. It gets the group, or the error for which there is none; its reply waits
/// for the commit.
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
    /// A call that is not put into a group with others.
    Alone,
}

/// The callers' side of the thread.
pub struct Committer<D> {
    path: PathBuf,
    /// The queue; `None` while the committer is dropped.
    queue: Option<mpsc::Sender<Call<D>>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Database> Committer<D> {
    /// Opens the database at a path on its thread.
    pub async fn start(
        path: impl AsRef<Path>,
        open: impl FnOnce(&Path) -> Result<D, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let path = path.as_ref().to_path_buf();
        let (queue, calls) = mpsc::channel(QUEUE_CALLS);
        let (opened, is_open) = oneshot::channel();
        let here = path.clone();
        let work = move || match open(&here) {
            Ok(database) => {
                let _ = opened.send(Ok(())); // whoever asked may have gone away: then the queue is closed, too
                run(Group { database, path: here, pending: Pending::default(), spent: 0 }, calls);
            }
            Err(error) => drop(opened.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name(format!("hapax {}", D::BACKEND)).spawn(work);
        let thread = thread
            .map_err(|error| StoreError::caused(ErrorKind::Unavailable, D::BACKEND, "no thread", error).at(&path))?;
        // The database library may panic at the content of the files.
        let panicked = |_| Err(StoreError::new(ErrorKind::Corrupt, D::BACKEND, "opening it panicked"));
        is_open.await.unwrap_or_else(panicked).map_err(|error| error.at(&path))?;
        Ok(Committer { path, queue: Some(queue), thread: Some(thread) })
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn each<R, A>(
        &self,
        kind: Kind,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
        decide: impl Fn(&mut Group<D>, Vec<u8>, &R, Timestamp) -> Result<A, StoreError> + Send + 'static,
    ) -> Answers<A>
    where
        R: Request,
        A: Send + 'static,
    {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let requests: Vec<(Vec<u8>, R)> =
            requests.iter().map(|request| (key(request).to_stored(), request.clone())).collect();
        self.call(kind, requests.len(), move |group| {
            let now = group.database.now();
            let decide = |(key, request): (Vec<u8>, R)| {
                request.check()?;
                decide(group, key, &request, now)
            };
            requests.into_iter().map(decide).collect()
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
            // A cancelled caller gets no answer.
            Box::new(move |committed| drop(answer.send(committed.and(decided))))
        };
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(Call { kind, requests, decide: Box::new(decide) }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// A store that leaves everything to a committer's thread.
pub trait Committed: Send + Sync + 'static {
    /// The database.
    type Database: Database;
    /// The [limits](crate::Store::limits) that suit it best.
    const LIMITS: Limits;
    /// True if [no other process](crate::Store::is_private) can have it open at the same time.
    const IS_PRIVATE: bool;

    /// Returns the thread that owns the database.
    fn committer(&self) -> &Committer<Self::Database>;
}

impl<C: Committed> Decided for C {
    const BACKEND: &'static str = C::Database::BACKEND;
    const LIMITS: Limits = C::LIMITS;
    const IS_PRIVATE: bool = C::IS_PRIVATE;

    async fn change<R: Request, A: Send + 'static>(
        &self,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
        decide: impl Fn(Option<&StoredRecord>, &R, Moment) -> (A, Change) + Send + Sync + 'static,
    ) -> Answers<A> {
        let each = move |group: &mut Group<C::Database>, key: Vec<u8>, request: &R, now| {
            let stored = group.find(&key)?;
            let (answer, change) = decide(stored.as_ref(), request, group.at(now));
            if let Change::Put(stored) = change {
                group.put(key, &stored);
            }
            Ok(answer)
        };
        self.committer().each(Kind::Writes, requests, key, each).await
    }

    async fn look<A: Send + 'static>(
        &self,
        keys: &[RecordKey],
        decide: fn(Option<&StoredRecord>, Moment) -> A,
    ) -> Answers<A> {
        let each = move |group: &mut Group<C::Database>, key: Vec<u8>, _: &RecordKey, now| {
            Ok(decide(group.find(&key)?.as_ref(), group.at(now)))
        };
        self.committer().each(Kind::Reads, keys, |key| key, each).await
    }

    async fn put<R: Request>(
        &self,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
        stored: fn(&R, Moment) -> StoredRecord,
    ) -> Answers<()> {
        let each = move |group: &mut Group<C::Database>, key, request: &R, now| {
            let stored = stored(request, group.at(now));
            group.put(key, &stored);
            Ok(())
        };
        self.committer().each(Kind::Writes, requests, key, each).await
    }

    async fn remove_expired(&self, limit: usize) -> Result<Expired, StoreError> {
        self.committer().call(Kind::Alone, 1, move |group| group.ask(|database| database.expire(limit))).await?
    }

    async fn page(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let from = from.cloned();
        let list =
            move |group: &mut Group<_>| group.ask(|database: &mut C::Database| database.list(from.as_ref(), limit));
        self.committer().call(Kind::Alone, 1, list).await?
    }
}

impl<D> fmt::Debug for Committer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committer").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<D> Drop for Committer<D> {
    /// Waits until all calls are committed and the database is closed, so that it can be opened
    /// again.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it panicked: callers have been told
        }
    }
}

impl<D: Database> Group<D> {
    /// Asks the database, and adds the path to an error.
    fn ask<A>(&mut self, ask: impl FnOnce(&mut D) -> Result<A, StoreError>) -> Result<A, StoreError> {
        ask(&mut self.database).map_err(|error| error.at(&self.path))
    }

    fn at(&self, now: Timestamp) -> Moment {
        Moment { now, spent: self.spent.max(self.database.spent()) }
    }

    fn put(&mut self, key: Vec<u8>, stored: &StoredRecord) {
        self.spent = self.spent.max(stored.token);
        self.pending.put(key, stored);
    }

    /// Returns the record of a key, including the changes of the group so far.
    fn find(&mut self, key: &[u8]) -> Result<Option<StoredRecord>, StoreError> {
        match self.pending.find(key) {
            Some(value) => codec::decode(value, D::BACKEND).map(Some),
            None => self.ask(|database| database.read(key)),
        }
    }
}

/// Runs the thread until no caller is left.
fn run<D: Database>(mut group: Group<D>, mut calls: mpsc::Receiver<Call<D>>) {
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

/// Takes the waiting calls, and returns the call that must wait for the next group.
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

/// Decides, commits and answers. Returns an error if nothing more may be acknowledged.
fn commit<D: Database>(
    group: &mut Group<D>,
    calls: Vec<Call<D>>,
    broken: Option<StoreError>,
) -> Result<(), StoreError> {
    let writes = calls.iter().any(|call| call.kind != Kind::Reads);
    if let Err(error) = broken.map_or_else(|| group.ask(|database| database.begin(writes)), Err) {
        for call in calls {
            (call.decide)(Err(error.clone()))(Ok(()));
        }
        return Ok(());
    }
    let replies: Vec<Reply> = calls.into_iter().map(|call| (call.decide)(Ok(group))).collect();
    let (committed, goes_on) = match group.database.commit(group.pending.take(), group.spent) {
        Ok(()) => (Ok(()), Ok(())),
        Err(CommitError::Undone(error)) => (Err(error.at(&group.path)), Ok(())),
        Err(CommitError::Broken(error)) => {
            let error = error.at(&group.path);
            (Err(error.clone()), Err(error))
        }
    };
    for reply in replies {
        reply(committed.clone());
    }
    goes_on
}

#[cfg(test)]
mod tests;
