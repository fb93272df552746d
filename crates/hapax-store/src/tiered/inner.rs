//! The state that the handles of an asynchronous engine share, and its calls of the store.

use super::doubt::{self, Doubts};
use super::engine::digest;
use super::nodes::{Node, Nodes};
#[cfg(feature = "metrics")]
use super::observe::Sample;
use super::observe::{Asked, Observer};
use super::operation::{Operation, Shared};
use super::overdue::Overdue;
use super::owner::Owned;
use super::unresolved::Unresolved;
use crate::erased::Erased;
use crate::sync::{Mutex, MutexGuard, Ordering, StdAtomicBool, StdAtomicU64, fence};
use crate::{ErrorKind, RecordKey, StoreError};
use hapax::Digest;
use hapax::tier::Memory;
use hapax::tier::random::mix;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

pub(super) struct Inner {
    pub(super) store: Arc<dyn Erased>,
    /// True if the store answers at once.
    pub(super) answers_at_once: bool,
    pub(super) nodes: Nodes,
    pub(super) shared: Shared,
    pub(super) calls: CallOptions,
    pub(super) unresolved: Mutex<Unresolved>,
    pub(super) unresolved_ids: StdAtomicU64,
    pub(super) doubts: Mutex<Doubts>,
    pub(super) overdue: Mutex<Overdue>,
    pub(super) has_overdue: StdAtomicBool,
    /// True if the owner of the store is unknown, and nothing else may be requested before.
    pub(super) awaits_owner: StdAtomicBool,
    /// Tells the task that takes marks back that there are some.
    pub(super) lost: mpsc::Sender<()>,
    /// The key by which this engine recognizes its attempts' numbers.
    pub(super) own: u64,
    /// Room for grants to callers that are gone, which are to be given back.
    pub(super) dropped: Arc<Semaphore>,
    pub(super) max_dropped: usize,
    pub(super) observer: Observer,
    pub(super) runtime: Handle,
    pub(super) ownership: Ownership,
    /// The claim of the ownership in the store, where there is one.
    pub(super) owned: OnceLock<Owned>,
    /// True if the histories know all ids that the store knows.
    pub(super) is_warm: StdAtomicBool,
    /// The reason for which this engine may not go on, if there is one.
    pub(super) refused: Mutex<Option<StoreError>>,
    pub(super) is_refused: StdAtomicBool,
    pub(super) numbers: StdAtomicU64,
}

/// The ownership of the ids in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// Other instances use the same store: it is asked about every id that the window does not
    /// know.
    #[default]
    Shared,
    /// This instance alone uses the store: an id that its history does not know is new, and
    /// completed ids are written behind.
    Exclusive,
}

/// The parameters of calls of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallOptions {
    pub(super) timeout: Duration,
    pub(super) retries: u32,
    /// The time for which a mark of another engine is in doubt.
    pub(super) in_doubt: Duration,
}

impl Inner {
    /// Returns memory's digest of a record's id.
    pub(super) fn id(&self, memory: &Memory, key: &RecordKey) -> Digest {
        digest(&memory.digester(key.scope.as_str()), &key.id)
    }

    /// Returns a number that no other attempt has: 63 bits.
    pub(super) fn number(&self) -> u64 {
        doubt::tagged(self.random(), self.own)
    }

    pub(super) fn random(&self) -> u64 {
        // Relaxed: it only matters that it is another one each time. A fork has a copy of it.
        mix(self.numbers.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) ^ hapax::tier::salt())
    }

    /// Returns the attempts with an unknown outcome, if there are any.
    pub(super) fn unresolved(&self) -> Option<MutexGuard<'_, Unresolved>> {
        // Relaxed: a caller that was told of a lost answer has seen it counted, and others do not
        // know of it.
        match self.unresolved_ids.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.lock_unresolved()),
        }
    }

    fn lock_unresolved(&self) -> MutexGuard<'_, Unresolved> {
        self.unresolved.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Publishes the current number of them.
    pub(super) fn count(&self, unresolved: &Unresolved) {
        self.unresolved_ids.store(unresolved.len() as u64, Ordering::Relaxed);
    }

    /// Remembers attempts with an unknown outcome.
    pub(super) fn remember(&self, attempts: impl IntoIterator<Item = (Digest, u64)>) {
        let mut attempts = attempts.into_iter().peekable();
        if attempts.peek().is_some() {
            let mut unresolved = self.lock_unresolved();
            attempts.for_each(|(id, attempt)| unresolved.insert(id, attempt));
            self.count(&unresolved);
        }
    }

    /// Teaches memory that these ids are done, except those with an attempt here whose answer was
    /// lost: a caller that asks again must ask the store.
    pub(super) fn teach(&self, memory: &Memory, ids: &[Digest]) {
        if !ids.is_empty() {
            memory.learn(ids);
            self.doubt(memory, ids.iter().copied());
        }
    }

    /// Makes memory forget those of these ids that have attempts with an unknown outcome: it may
    /// have learned of them from callers that have met the effect of such an attempt.
    pub(super) fn doubt(&self, memory: &Memory, mut ids: impl Iterator<Item = Digest>) {
        let Some(first) = ids.next() else { return };
        // SeqCst: one thread remembers an attempt and comes here, another has taught memory and
        // comes here. Either that one sees the attempt, or this one sees what memory was taught.
        fence(Ordering::SeqCst);
        if let Some(unresolved) = self.unresolved() {
            for id in std::iter::once(first).chain(ids).filter(|id| unresolved.contains(*id)) {
                memory.forget(id);
            }
        }
    }

    /// Returns true if the histories know all ids that the store knows.
    pub(super) fn is_warm(&self) -> bool {
        // Acquire: pairs with the Release of `warm`, whose insertions into the histories are then
        // seen.
        self.is_warm.load(Ordering::Acquire)
    }

    /// Stops this engine with this error.
    pub(super) fn refuse(&self, why: StoreError) {
        *self.refused.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(why);
        // Release: pairs with the Acquire of `admit`, which then finds the reason.
        self.is_refused.store(true, Ordering::Release);
    }

    /// Returns an error if this engine may not go on.
    pub(super) fn admit(&self) -> Result<(), StoreError> {
        if !self.is_refused.load(Ordering::Acquire) {
            return match self.owned.get() {
                // The task that renews it may not have run: the runtime was busy, or the machine
                // asleep.
                Some(owned) if owned.is_over() => {
                    let what = "this engine may no longer be the owner of the store: its lease has ended";
                    Err(StoreError::new(ErrorKind::Conflict, self.store.backend(), what))
                }
                _ => Ok(()),
            };
        }
        let refused = self.refused.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        refused.clone().map_or(Ok(()), Err)
    }

    /// Waits for room to write behind.
    pub(super) async fn room<'n>(&self, node: &'n Node, ids: usize) -> Result<SemaphorePermit<'n>, StoreError> {
        if let Some(room) = node.behind.try_room(ids) {
            return Ok(room);
        }
        self.patiently(node.behind.room(ids)).await
    }

    /// Waits until a node has the records that were decided without it.
    pub(super) async fn settle(&self, node: &Node) -> Result<(), StoreError> {
        match node.behind.len() {
            0 => Ok(()),
            _ => self.patiently(node.behind.settle()).await,
        }
    }

    /// Returns the longest time that a call with its retries may take, without the pauses.
    pub(super) fn patience(&self) -> Duration {
        self.calls.timeout * (self.calls.retries + 1)
    }

    /// Waits for as long as a call with its retries may take, and no longer.
    pub(super) async fn patiently<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let patience = self.patience();
        tokio::time::timeout(patience, work).await.unwrap_or_else(|_| {
            let late = format!("not done within {patience:?}");
            Err(StoreError::new(ErrorKind::Timeout, self.store.backend(), late))
        })
    }

    /// Calls the store, past the lanes and the breaker, and waits no longer than a call may take.
    pub(super) async fn in_time<T>(
        &self,
        asked: Asked,
        ids: usize,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let call = self.observer.begin(asked, ids);
        let work = call.under_way(work);
        let outcome = tokio::time::timeout(self.calls.timeout, work).await.unwrap_or_else(|_| {
            let late = format!("no answer to {} within {:?}", asked.name(), self.calls.timeout);
            Err(StoreError::new(ErrorKind::Timeout, self.store.backend(), late))
        });
        call.ended(outcome.as_ref().err().map(StoreError::kind));
        outcome
    }

    #[cfg(feature = "metrics")]
    pub(super) fn sample(&self) -> Sample {
        Sample {
            breaker: self.nodes.worst_breaker(),
            waiting: self.nodes.len(),
            behind: self.nodes.len_behind(),
            unresolved: self.unresolved_len(),
            is_warm: self.is_warm(),
            is_refused: self.admit().is_err(),
        }
    }

    /// Returns the number of ids that are being given back.
    pub(super) fn giving_back(&self) -> usize {
        self.max_dropped - self.dropped.available_permits()
    }

    pub(super) fn unresolved_len(&self) -> usize {
        self.lock_unresolved().len()
    }

    /// Returns an error for an id that stays in progress with no time left.
    pub(super) fn believes<O: Operation>(&self, id: Digest, answer: &O::Answer) -> Result<(), StoreError> {
        let left = O::in_progress(answer);
        // Relaxed: a thread that misses it leaves an id in it that is asked about again.
        if left.is_none_or(|left| left >= Duration::from_millis(1)) && !self.has_overdue.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut overdue = self.overdue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_over = overdue.says(id, left, tokio::time::Instant::now());
        self.has_overdue.store(!overdue.is_empty(), Ordering::Relaxed);
        match is_over {
            true => Err(StoreError::new(ErrorKind::Corrupt, self.store.backend(), overdue.what())),
            false => Ok(()),
        }
    }
}
