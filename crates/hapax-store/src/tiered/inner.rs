//! What the handles of an asynchronous engine share, and how it calls its store.

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
    /// Whether the store does.
    pub(super) answers_at_once: bool,
    pub(super) nodes: Nodes,
    pub(super) shared: Shared,
    pub(super) calls: CallOptions,
    pub(super) unresolved: Mutex<Unresolved>,
    pub(super) unresolved_ids: StdAtomicU64,
    pub(super) doubts: Mutex<Doubts>,
    pub(super) overdue: Mutex<Overdue>,
    pub(super) has_overdue: StdAtomicBool,
    /// Whether it is unknown who owns the store, and nothing else may be asked before.
    pub(super) awaits_owner: StdAtomicBool,
    /// Tells whoever takes marks back that there are some.
    pub(super) lost: mpsc::Sender<()>,
    /// By which its attempts' numbers are known again.
    pub(super) own: u64,
    /// Room for what was granted to those who are gone, and is to be given back.
    pub(super) dropped: Arc<Semaphore>,
    pub(super) max_dropped: usize,
    pub(super) observer: Observer,
    pub(super) runtime: Handle,
    pub(super) ownership: Ownership,
    /// What says so in the store, where that can tell.
    pub(super) owned: OnceLock<Owned>,
    /// Whether the histories know all that the store knows.
    pub(super) is_warm: StdAtomicBool,
    /// Why this engine may not go on, if so.
    pub(super) refused: Mutex<Option<StoreError>>,
    pub(super) is_refused: StdAtomicBool,
    pub(super) numbers: StdAtomicU64,
}

/// Whose the ids are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// Other instances use the same store: whatever the window does not know is asked there.
    #[default]
    Shared,
    /// This instance alone: what its history does not know is new, and completed ids are written behind.
    Exclusive,
}

/// How the store is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallOptions {
    pub(super) timeout: Duration,
    pub(super) retries: u32,
    /// How long a mark of another engine is in doubt.
    pub(super) in_doubt: Duration,
}

impl Inner {
    /// What memory calls the id of a record.
    pub(super) fn id(&self, memory: &Memory, key: &RecordKey) -> Digest {
        digest(&memory.digester(key.scope.as_str()), &key.id)
    }

    /// A number that no other attempt has: 63 bits.
    pub(super) fn number(&self) -> u64 {
        doubt::tagged(self.random(), self.own)
    }

    pub(super) fn random(&self) -> u64 {
        // Relaxed: only that it is another one each time matters. A fork has a copy of it.
        mix(self.numbers.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) ^ hapax::tier::salt())
    }

    /// Attempts of which nobody knows what came, if there are any.
    pub(super) fn unresolved(&self) -> Option<MutexGuard<'_, Unresolved>> {
        // Relaxed: whoever was told of a lost answer has seen it counted, and others do not know of it.
        match self.unresolved_ids.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.lock_unresolved()),
        }
    }

    fn lock_unresolved(&self) -> MutexGuard<'_, Unresolved> {
        self.unresolved.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Says how many there are now.
    pub(super) fn count(&self, unresolved: &Unresolved) {
        self.unresolved_ids.store(unresolved.len() as u64, Ordering::Relaxed);
    }

    /// Remembers attempts of which nobody knows what came.
    pub(super) fn remember(&self, attempts: impl IntoIterator<Item = (Digest, u64)>) {
        let mut attempts = attempts.into_iter().peekable();
        if attempts.peek().is_some() {
            let mut unresolved = self.lock_unresolved();
            attempts.for_each(|(id, attempt)| unresolved.insert(id, attempt));
            self.count(&unresolved);
        }
    }

    /// Memory learns that these are done, unless that may be by an attempt here of which nobody was
    /// told: whoever asks again must ask the store.
    pub(super) fn teach(&self, memory: &Memory, ids: &[Digest]) {
        if !ids.is_empty() {
            memory.learn(ids);
            self.doubt(memory, ids.iter().copied());
        }
    }

    /// Memory forgets those of these of whose attempts nobody knows what came: it may have learned
    /// of them from others who have met what came of that.
    pub(super) fn doubt(&self, memory: &Memory, mut ids: impl Iterator<Item = Digest>) {
        let Some(first) = ids.next() else { return };
        // SeqCst: one remembers an attempt and comes here, another has told memory and comes here.
        // Either that one sees the attempt, or this one what memory was told.
        fence(Ordering::SeqCst);
        if let Some(unresolved) = self.unresolved() {
            for id in std::iter::once(first).chain(ids).filter(|id| unresolved.contains(*id)) {
                memory.forget(id);
            }
        }
    }

    /// Whether the histories know all that the store knows.
    pub(super) fn is_warm(&self) -> bool {
        // Acquire: pairs with the Release of `warm`, whose insertions into the histories are then seen.
        self.is_warm.load(Ordering::Acquire)
    }

    /// This engine may not go on.
    pub(super) fn refuse(&self, why: StoreError) {
        *self.refused.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(why);
        // Release: pairs with the Acquire of `admit`, which then finds the reason.
        self.is_refused.store(true, Ordering::Release);
    }

    /// Whether this engine may go on.
    pub(super) fn admit(&self) -> Result<(), StoreError> {
        if !self.is_refused.load(Ordering::Acquire) {
            return match self.owned.get() {
                // Whoever renews it may not have come to it: the runtime was busy, or the machine asleep.
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

    /// Room to write behind.
    pub(super) async fn room<'n>(&self, node: &'n Node, ids: usize) -> Result<SemaphorePermit<'n>, StoreError> {
        if let Some(room) = node.behind.try_room(ids) {
            return Ok(room);
        }
        self.patiently(node.behind.room(ids)).await
    }

    /// Waits until a node knows what was decided without it.
    pub(super) async fn settle(&self, node: &Node) -> Result<(), StoreError> {
        match node.behind.len() {
            0 => Ok(()),
            _ => self.patiently(node.behind.settle()).await,
        }
    }

    /// How long a call that is retried may take, but for the pauses.
    pub(super) fn patience(&self) -> Duration {
        self.calls.timeout * (self.calls.retries + 1)
    }

    /// Waits as long as a call that is retried may take, and no longer.
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

    /// Asks the store something, past the lanes and the breaker, and waits no longer than a call may take.
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

    /// How many ids are being given back.
    pub(super) fn giving_back(&self) -> usize {
        self.max_dropped - self.dropped.available_permits()
    }

    pub(super) fn unresolved_len(&self) -> usize {
        self.lock_unresolved().len()
    }

    /// An id that is in progress for ever, for no time at all, is an error.
    pub(super) fn believes<O: Operation>(&self, id: Digest, answer: &O::Answer) -> Result<(), StoreError> {
        let left = O::in_progress(answer);
        // Relaxed: whoever misses it leaves an id in it that is asked about again.
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
