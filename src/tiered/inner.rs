//! What the handles of an asynchronous engine share, and how it calls its store.

use super::breaker::back_off;
use super::doubt::{self, Doubts};
use super::memory::{Memory, digest};
use super::nodes::{Node, Nodes};
#[cfg(feature = "metrics")]
use super::observe::Sample;
use super::observe::{Asked, Observer};
use super::operation::{Operation, Shared};
use super::overdue::Overdue;
use super::owner::Owned;
use super::unresolved::Unresolved;
use crate::digest::Digest;
use crate::random::mix;
use crate::store::erased::Erased;
use crate::store::{ErrorKind, RecordKey, StoreError};
use crate::sync::{Mutex, Ordering, StdAtomicBool, StdAtomicU64};
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
    /// Room for claims that were dropped, and are to be released.
    pub(super) dropped: Arc<Semaphore>,
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
        mix(self.numbers.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) ^ crate::process::salt())
    }

    /// The number of the next attempt at an id: that of an earlier one, if nobody knows what came of that.
    pub(super) fn attempt(&self, id: Digest) -> u64 {
        // Relaxed: whoever was told of a lost answer has seen it counted, and others do not know of it.
        if self.unresolved_ids.load(Ordering::Relaxed) == 0 {
            return self.number();
        }
        let mut unresolved = self.unresolved.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let attempt = unresolved.take(id);
        self.unresolved_ids.store(unresolved.len() as u64, Ordering::Relaxed);
        drop(unresolved);
        attempt.filter(|attempt| self.doubts().reclaim(*attempt)).unwrap_or_else(|| self.number())
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

    /// Waits as long as a call that is retried may take, and no longer.
    pub(super) async fn patiently<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let patience = self.calls.timeout * (self.calls.retries + 1);
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

    pub(super) fn unresolved_len(&self) -> usize {
        self.unresolved.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).len()
    }

    /// Calls a node of the store, again if that may help: every request can be made twice, since its attempt or token tells it apart.
    pub(super) async fn call<O: Operation>(
        &self,
        node: &Node,
        requests: &mut [O::Request],
        ids: &[Digest],
    ) -> Vec<Result<O::Answer, StoreError>> {
        let mut answers = self.try_call::<O>(node, requests).await;
        for tries in 0..self.calls.retries {
            let is_open = |answer: &Result<_, StoreError>| matches!(answer, Err(error) if error.kind().is_transient());
            let open: Vec<usize> = (0..answers.len()).filter(|&i| is_open(&answers[i])).collect();
            if open.is_empty() {
                break;
            }
            tokio::time::sleep(back_off(tries, self.random())).await;
            self.observer.retried(O::ASKED);
            let again: Vec<O::Request> = open.iter().map(|&i| requests[i].clone()).collect();
            for (i, answer) in open.into_iter().zip(self.try_call::<O>(node, &again).await) {
                answers[i] = answer.map(O::when_asked_again);
            }
        }
        let mut unresolved = None;
        for ((request, answer), id) in requests.iter_mut().zip(&answers).zip(ids) {
            if let Err(error) = answer
                && error.kind().is_transient()
                && let Some(attempt) = O::attempt(request)
            {
                unresolved
                    .get_or_insert_with(|| self.unresolved.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
                    .insert(*id, *attempt);
            }
        }
        if let Some(unresolved) = unresolved {
            self.unresolved_ids.store(unresolved.len() as u64, Ordering::Relaxed);
            drop(unresolved);
            let is_lost = |answer: &Result<_, StoreError>| answer.as_ref().is_err_and(|it| it.kind().is_transient());
            O::lost(self, requests.iter().zip(&answers).filter(|(_, answer)| is_lost(answer)).map(|(it, _)| it));
        }
        let judged = |((answer, request), id): ((Result<_, _>, &_), &_)| {
            let answer = O::judged(self, request, answer?);
            self.believes::<O>(*id, &answer).map(|()| answer)
        };
        answers.into_iter().zip(&*requests).zip(ids).map(judged).collect()
    }

    /// An id that is in progress for ever, for no time at all, is an error.
    fn believes<O: Operation>(&self, id: Digest, answer: &O::Answer) -> Result<(), StoreError> {
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

    /// Gives back what was granted to those who are gone. A store that does not answer must not keep those who are not.
    pub(super) async fn undo<O: Operation>(&self, granted: &[(O::Request, O::Answer)]) {
        if !granted.is_empty() {
            // If it is not done in time: see the operation.
            let _ = tokio::time::timeout(self.calls.timeout, O::undo(self, granted)).await;
        }
    }

    async fn try_call<O: Operation>(&self, node: &Node, requests: &[O::Request]) -> Vec<Result<O::Answer, StoreError>> {
        let backend = self.store.backend();
        let everywhere = |error: StoreError| requests.iter().map(|_| Err(error.clone())).collect();
        // Acquire: pairs with the Release of whoever has found out.
        if self.awaits_owner.load(Ordering::Acquire) {
            self.observer.not_asked(O::ASKED);
            let unknown = "not asked, since it is not known yet if another engine has claimed the store for itself";
            return everywhere(StoreError::new(ErrorKind::Unavailable, backend, unknown));
        }
        if !node.breaker().admits(now()) {
            self.observer.not_asked(O::ASKED);
            let open = "not asked, since it has failed again and again: the circuit breaker is open";
            return everywhere(StoreError::new(ErrorKind::Unavailable, backend, open));
        }
        let asked = async {
            let answers = O::call(&*self.store, requests).await?;
            if answers.len() != requests.len() {
                let wrong = format!("{} answers to {} requests to {}", answers.len(), requests.len(), O::ASKED.name());
                return Err(StoreError::new(ErrorKind::Corrupt, backend, wrong));
            }
            Ok(answers)
        };
        match self.in_time(O::ASKED, requests.len(), asked).await {
            Ok(answers) => {
                if node.breaker().succeeded() {
                    self.observer.closed();
                }
                let failed = answers.iter().filter_map(|answer| answer.as_ref().err());
                failed.for_each(|error| self.observer.meters.request_failed(error.kind()));
                answers
            }
            Err(error) => {
                match error.kind().is_transient() {
                    true if node.breaker().failed(now()) => self.observer.opened(),
                    // It has answered, if only to refuse.
                    false if node.breaker().succeeded() => self.observer.closed(),
                    _ => {}
                }
                everywhere(error)
            }
        }
    }
}

/// By the runtime's clock, which a test may stop.
fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
