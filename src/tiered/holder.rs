//! Who holds an id: a claim, whatever its store, and how it ends.

use super::claim::{ClaimError, Done, TieredClaimOptions};
use super::engine::{Engine, Name, PolicyState};
use super::inner::Inner;
use super::led::Leaving;
#[cfg(feature = "stream")]
use super::note::Note;
use super::observe::{self, End};
use super::operation::{Completions, Failures, Records, Releases, Renewals};
use crate::digest::Digest;
use crate::store::erased::Answering;
use crate::store::{self, Completion, Failure, Fingerprint, Held, Hold, Record, RecordKey, Renewal, StoreError};
use crate::{LostLease, Token};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What came of an attempt to claim an id.
pub(super) enum Attempt {
    Claimed(Holder),
    InProgress { lease_left: Duration },
    Duplicate(Done),
    Mismatch,
    TooMany,
}

/// What [`TieredClaim`](super::TieredClaim) is, but for the type of its store.
pub(super) struct Holder {
    inner: Arc<Inner>,
    policy: Arc<PolicyState>,
    pub(super) key: RecordKey,
    id: Digest,
    fingerprint: Option<Fingerprint>,
    lease: Duration,
    pub(super) held: Where,
    begun: Instant,
    open: bool,
}

/// Where a claim is held.
#[derive(Clone, Copy, Debug)]
pub(super) enum Where {
    /// In the store.
    Store { token: u64 },
    /// In this process, which is the only one.
    Here { token: u64 },
    /// Nowhere: the store could not be asked, and the policy was to admit.
    Admitted,
    /// Nowhere: in shadow mode, the id is not the caller's, and nobody may notice.
    Shadow,
}

impl Holder {
    pub(super) fn new(engine: &Engine, (key, id): Name, options: &TieredClaimOptions, held: Where) -> Self {
        Holder {
            inner: Arc::clone(&engine.inner),
            policy: Arc::clone(&engine.policy),
            key,
            id,
            fingerprint: options.fingerprint,
            lease: options.lease.unwrap_or(engine.policy.lease),
            held,
            begun: Instant::now(),
            open: true,
        }
    }

    pub(super) fn token(&self) -> Token {
        Token::from_u64(match self.held {
            // Stores count in microseconds, memory in nanoseconds: so tokens grow when an engine becomes shared or exclusive.
            Where::Store { token } => token.saturating_mul(1_000),
            Where::Here { token } => token,
            Where::Admitted | Where::Shadow => 0,
        })
    }

    pub(super) fn is_verified(&self) -> bool {
        matches!(self.held, Where::Store { .. } | Where::Here { .. })
    }

    /// The place where something is kept beside its id, for those who hold it in turn.
    #[cfg(feature = "stream")]
    pub(super) fn note(&self) -> Option<Note> {
        self.is_verified().then(|| Note::new(&self.inner, &self.policy, &self.key))
    }

    pub(super) fn complete(mut self, result: Option<Vec<u8>>) -> Answering<'static, Result<(), ClaimError>> {
        Box::pin(async move {
            // From here on the work is done: a caller that is dropped must not release the id, or the work would be done again at once.
            self.open = false;
            let completed = self.try_to_complete(result).await;
            self.counted(End::Completed, completed)
        })
    }

    async fn try_to_complete(&self, result: Option<Vec<u8>>) -> Result<(), ClaimError> {
        match self.held {
            Where::Shadow => Ok(()),
            Where::Store { .. } => {
                let (completion, id) = self.completion(result);
                self.held(self.inner.ask_one::<Completions>(&self.policy.memory, completion, id).await)
            }
            Where::Here { token } => {
                // So that nobody takes it over while the store writes.
                self.check_held(self.policy.memory.extend(self.id, token, self.lease, false))?;
                self.record(result).await?;
                self.check_held(self.policy.memory.complete(self.id, token))
            }
            Where::Admitted => {
                self.record(result).await?;
                self.policy.memory.learn(&[self.id]);
                Ok(())
            }
        }
    }

    /// Counts how it ended.
    fn counted(&self, end: End, ended: Result<(), ClaimError>) -> Result<(), ClaimError> {
        // What is not the caller's in a shadow was no claim.
        if !matches!(self.held, Where::Shadow) {
            self.policy.verdicts.ended(end.of(&ended), self.begun.elapsed());
        }
        ended
    }

    /// What the store is asked for to complete it.
    pub(super) fn completion(&self, result: Option<Vec<u8>>) -> (Completion, Digest) {
        let token = match self.held {
            Where::Store { token } | Where::Here { token } => token,
            Where::Admitted | Where::Shadow => 0,
        };
        let hold = Hold { key: self.key.clone(), token };
        (Completion { hold, retention: self.policy.retention, result }, self.id)
    }

    async fn record(&self, result: Option<Vec<u8>>) -> Result<(), ClaimError> {
        let (key, retention) = (self.key.clone(), self.policy.retention);
        let record = Record { key, retention, fingerprint: self.fingerprint, result };
        self.inner.ask_one::<Records>(&self.policy.memory, record, self.id).await.map_err(ClaimError::Store)
    }

    pub(super) fn release(mut self) -> Answering<'static, Result<(), ClaimError>> {
        Box::pin(async move {
            self.open = false;
            let released = match self.held {
                Where::Admitted | Where::Shadow => Ok(()),
                Where::Here { token } => self.check_held(self.policy.memory.release(self.id, token)),
                Where::Store { token } => {
                    let hold = Hold { key: self.key.clone(), token };
                    self.held(self.inner.ask_one::<Releases>(&self.policy.memory, hold, self.id).await)
                }
            };
            self.counted(End::Released, released)
        })
    }

    pub(super) fn fail(mut self, retry_after: Duration) -> Answering<'static, Result<(), ClaimError>> {
        Box::pin(async move {
            self.open = false;
            let failed = match self.held {
                Where::Admitted | Where::Shadow => Ok(()),
                Where::Here { token } => self.check_held(self.policy.memory.extend(self.id, token, retry_after, true)),
                Where::Store { token } => {
                    let failure = Failure { hold: Hold { key: self.key.clone(), token }, retry_after };
                    self.held(self.inner.ask_one::<Failures>(&self.policy.memory, failure, self.id).await)
                }
            };
            self.counted(End::Failed, failed)
        })
    }

    pub(super) fn renew(&mut self, lease: Duration) -> Answering<'_, Result<(), ClaimError>> {
        Box::pin(async move {
            self.lease = lease;
            let renewed = match self.held {
                Where::Admitted | Where::Shadow => return Ok(()),
                Where::Here { token } => self.check_held(self.policy.memory.extend(self.id, token, lease, false)),
                Where::Store { token } => {
                    let renewal = Renewal { hold: Hold { key: self.key.clone(), token }, lease };
                    self.held(self.inner.ask_one::<Renewals>(&self.policy.memory, renewal, self.id).await)
                }
            };
            self.policy.verdicts.meters.renewed(observe::Renewal::of(&renewed));
            renewed
        })
    }

    #[cfg(any(feature = "http", feature = "stream"))]
    pub(super) fn keep(&mut self) -> Answering<'_, ()> {
        Box::pin(async move {
            loop {
                tokio::time::sleep(self.lease / 3).await;
                // What the store could not do is tried again, and completing says in the end whether that was enough.
                if let Err(ClaimError::LostLease(_)) = self.renew(self.lease).await {
                    return;
                }
            }
        })
    }

    /// The store has said what came of its completion, which was asked for with those of others.
    pub(super) fn completed_with_others(&self, held: Result<Held, StoreError>) -> Result<(), ClaimError> {
        self.counted(End::Completed, self.held(held))
    }

    fn held(&self, held: Result<Held, StoreError>) -> Result<(), ClaimError> {
        self.check_held(held.map_err(ClaimError::Store)? == store::Held::Done)
    }

    fn check_held(&self, held: bool) -> Result<(), ClaimError> {
        match held {
            true => Ok(()),
            false => Err(ClaimError::LostLease(LostLease { token: self.token() })),
        }
    }

    /// Whether the store holds it, for an engine that completes many of one policy at a time.
    pub(super) fn close_if_in_store(&mut self, inner: &Arc<Inner>, policy: &Arc<PolicyState>) -> bool {
        let is_theirs = Arc::ptr_eq(&self.inner, inner) && Arc::ptr_eq(&self.policy, policy);
        let in_store = is_theirs && matches!(self.held, Where::Store { .. });
        self.open &= !in_store;
        in_store
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        // If the lease had expired, it was lost; nobody waits for an answer that would say so.
        let _ = self.counted(End::Dropped, Ok(()));
        match self.held {
            Where::Admitted | Where::Shadow => {}
            Where::Here { token } => {
                // If it was lost, there is nothing to release.
                self.policy.memory.release(self.id, token);
            }
            Where::Store { token } => {
                // As many as may wait. If it fails, or there are more, the lease expires.
                let Ok(room) = Arc::clone(&self.inner.dropped).try_acquire_owned() else { return };
                let (inner, policy, id) = (Arc::clone(&self.inner), Arc::clone(&self.policy), self.id);
                let hold = Hold { key: self.key.clone(), token };
                let leaving = (!inner.answers_at_once).then(|| Leaving::begin(&inner, id));
                self.inner.runtime.spawn(async move {
                    let (_room, _leaving) = (room, leaving);
                    let _ = inner.ask_one::<Releases>(&policy.memory, hold, id).await;
                });
            }
        }
    }
}
