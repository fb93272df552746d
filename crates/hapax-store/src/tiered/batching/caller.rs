//! Calls of the store: time-outs, the circuit breaker, and tries.

use super::answers::Answer;
use super::operation::Operation;
use crate::dyn_store::Erased;
use crate::sync::{Mutex, Ordering, StdAtomicBool, lock};
use crate::tiered::breaker::{Breaker, back_off};
use crate::tiered::observe::{Observer, RequestKind};
use crate::tiered::random::Random;
use crate::{ErrorKind, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// The effects that requests may have besides their answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// True if the store may have carried out a request.
    pub(super) asked: bool,
    /// True if a request was given up, which the store may carry out later.
    pub(super) gave_up: bool,
}

/// The store, and how it is called.
pub(crate) struct Caller {
    pub(crate) store: Arc<dyn Erased>,
    /// True if the store answers at once.
    pub(crate) answers_at_once: bool,
    /// The time for which an answer is waited for.
    pub(crate) timeout: Duration,
    retries: u32,
    pub(crate) observer: Observer,
    pub(crate) random: Arc<Random>,
    /// True if the owner of the store is unknown, and nothing else may be requested before.
    awaits_owner: StdAtomicBool,
}

impl Caller {
    pub(crate) fn new(store: Arc<dyn Erased>, timeout: Duration, retries: u32, random: Arc<Random>) -> Self {
        Caller {
            answers_at_once: store.answers_at_once(),
            timeout,
            retries,
            observer: Observer::new(store.backend()),
            random,
            awaits_owner: StdAtomicBool::new(false),
            store,
        }
    }

    /// Refuses calls until [`owner_is_known`](Self::owner_is_known).
    pub(crate) fn await_owner(&self) {
        // Release: pairs with the Acquire of `call_once`.
        self.awaits_owner.store(true, Ordering::Release);
    }

    pub(crate) fn owner_is_known(&self) {
        // Release: pairs with the Acquire of `call_once`.
        self.awaits_owner.store(false, Ordering::Release);
    }

    /// Returns the longest time that a call with its retries may take, without the pauses.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout * (self.retries + 1)
    }

    /// Waits for as long as a call with its retries may take, and no longer.
    pub(crate) async fn patiently<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let patience = self.patience();
        tokio::time::timeout(patience, work).await.unwrap_or_else(|_| {
            let late = format!("not done within {patience:?}");
            Err(StoreError::new(ErrorKind::Timeout, self.store.backend(), late))
        })
    }

    /// Calls the store, past the batchers and the breaker, and waits no longer than a call may
    /// take.
    pub(crate) async fn in_time<T>(
        &self,
        kind: RequestKind,
        ids: usize,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let call = self.observer.begin(kind, ids);
        let work = call.under_way(work);
        let outcome = tokio::time::timeout(self.timeout, work).await.unwrap_or_else(|_| {
            let late = format!("no answer to {} within {:?}", kind.name(), self.timeout);
            Err(StoreError::new(ErrorKind::Timeout, self.store.backend(), late))
        });
        call.ended(outcome.as_ref().err().map(StoreError::kind));
        outcome
    }

    /// Calls the store, and repeats failed requests as often as configured. Adds to `sent` what
    /// may become of them.
    pub(super) async fn call<O: Operation>(
        &self,
        breaker: &Mutex<Breaker>,
        requests: &[O::Request],
        sent: &mut Sent,
    ) -> Vec<Answer<O>> {
        if requests.is_empty() {
            return Vec::new();
        }
        let mut answers = self.call_once::<O>(breaker, requests, sent).await;
        for tries in 0..self.retries {
            let is_open = |answer: &Answer<O>| matches!(answer, Err(error) if error.kind().is_transient());
            let open: Vec<usize> = (0..answers.len()).filter(|&i| is_open(&answers[i])).collect();
            if open.is_empty() {
                break;
            }
            tokio::time::sleep(back_off(tries, self.random.next())).await;
            self.observer.retried(O::KIND);
            let again: Vec<O::Request> = open.iter().map(|&i| requests[i].clone()).collect();
            for (i, answer) in open.into_iter().zip(self.call_once::<O>(breaker, &again, sent).await) {
                answers[i] = answer.map(O::when_asked_again);
            }
        }
        debug_assert_eq!(answers.len(), requests.len(), "each request has one answer");
        answers
    }

    async fn call_once<O: Operation>(
        &self,
        breaker: &Mutex<Breaker>,
        requests: &[O::Request],
        sent: &mut Sent,
    ) -> Vec<Answer<O>> {
        let backend = self.store.backend();
        let everywhere = |error: StoreError| requests.iter().map(|_| Err(error.clone())).collect();
        // Acquire: pairs with the Release of the task that has found the owner.
        if self.awaits_owner.load(Ordering::Acquire) {
            self.observer.not_asked(O::KIND);
            let unknown = "not asked, since it is not known yet if another engine has claimed the store for itself";
            return everywhere(StoreError::new(ErrorKind::Unavailable, backend, unknown));
        }
        // Marks are taken back at a pace of their own, whose failures say nothing to callers.
        let is_unasked = O::KIND == RequestKind::Unmark;
        if !is_unasked && !lock(breaker).admits(now()) {
            self.observer.not_asked(O::KIND);
            let open = "not asked, since it has failed again and again: the circuit breaker is open";
            return everywhere(StoreError::new(ErrorKind::Unavailable, backend, open));
        }
        sent.asked = true;
        let call = async {
            let answers = O::call(&*self.store, requests).await?;
            if answers.len() != requests.len() {
                let wrong = format!("{} answers to {} requests to {}", answers.len(), requests.len(), O::KIND.name());
                return Err(StoreError::new(ErrorKind::Corrupt, backend, wrong));
            }
            Ok(answers)
        };
        match self.in_time(O::KIND, requests.len(), call).await {
            Ok(answers) => {
                if lock(breaker).succeeded() {
                    self.observer.closed();
                }
                let failed = answers.iter().filter_map(|answer| answer.as_ref().err());
                failed.for_each(|error| {
                    sent.gave_up |= may_be_done(error);
                    self.observer.request_failed(error.kind());
                });
                answers
            }
            Err(error) => {
                sent.gave_up |= may_be_done(&error);
                if error.kind().is_transient() {
                    if !is_unasked && lock(breaker).failed(now()) {
                        self.observer.opened();
                    }
                } else if lock(breaker).succeeded() {
                    // The store has answered, if only with a refusal.
                    self.observer.closed();
                }
                everywhere(error)
            }
        }
    }
}

/// Returns true if the store may have done what failed, or do it later; also if its answer was not
/// understood.
pub(super) fn may_be_done(error: &StoreError) -> bool {
    error.kind().is_transient() || error.kind() == ErrorKind::Corrupt
}

/// Returns the time of the runtime's clock, which a test may stop.
fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
