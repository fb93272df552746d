//! What holds a claim of an asynchronous engine, and how it ends.

use super::dedup::{Name, PolicyState, TieredDedup};
use super::inner::Inner;
use super::observe::{self, End};
use super::operation::{Completions, Failures, Records, Releases, Renewals};
use crate::digest::Digest;
use crate::store::{self, Completion, Failure, Fingerprint, Held, Hold, Record, RecordKey, Renewal, Store, StoreError};
use crate::{LostLease, Token, Verdict};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What came of an attempt to claim an id.
#[derive(Debug)]
#[must_use = "a claim that is not kept is released"]
pub enum TieredAttempt<S: Store> {
    /// The id is the caller's to handle, until the lease expires.
    Claimed(TieredClaim<S>),
    /// Somebody else is at work, or has failed a short time ago. Nothing is decided: the message must come again.
    InProgress {
        /// How long until the id can be had, if nobody renews, and it is not completed or released before.
        lease_left: Duration,
    },
    /// It is done.
    Duplicate(Done),
    /// It is in progress or done, with another fingerprint.
    Mismatch,
    /// This process has so many ids in flight, about a million, that no more are taken on. Only from an exclusive engine.
    TooMany,
}

/// An id that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Who says so.
    pub verdict: Verdict,
    /// What was kept with the completion, if anything was, and the store was asked: memory does not know results. A claim
    /// that [wants it](TieredClaimOptions::wants_result) asks the store.
    pub result: Option<Vec<u8>>,
}

impl<S: Store> TieredAttempt<S> {
    /// The claim, if there is one.
    pub fn claimed(self) -> Option<TieredClaim<S>> {
        match self {
            TieredAttempt::Claimed(claim) => Some(claim),
            _ => None,
        }
    }

    /// Whether the id is done already.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, TieredAttempt::Duplicate(_))
    }

    /// Whether somebody else is at it.
    pub fn is_in_progress(&self) -> bool {
        matches!(self, TieredAttempt::InProgress { .. })
    }
}

/// What a claim is to be like, other than usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct TieredClaimOptions {
    pub(super) lease: Option<Duration>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) wants_result: bool,
}

impl TieredClaimOptions {
    /// The policy's lease, no fingerprint.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long the id is the caller's. Default: as the policy has it.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        TieredClaimOptions { lease: Some(lease), ..self }
    }

    /// What the message is, besides its id: a claim of the same id with another fingerprint is a
    /// [mismatch](TieredAttempt::Mismatch). Such claims ask the store even if memory knows the id, since memory does not know what the message was.
    #[must_use]
    pub fn fingerprint(self, message: impl AsRef<[u8]>) -> Self {
        TieredClaimOptions { fingerprint: Some(Fingerprint::of(message)), ..self }
    }

    /// Whether the result of an id that is done is wanted: then the store is asked even if memory knows that it is.
    #[must_use]
    pub fn wants_result(self) -> Self {
        TieredClaimOptions { wants_result: true, ..self }
    }
}

/// Why a claim could not be completed, released or renewed.
#[derive(Clone, Debug)]
pub enum ClaimError {
    /// Its lease has expired, and perhaps somebody else has taken it over. Nothing was changed.
    LostLease(LostLease),
    /// The store could not say. If the work was done, it may be done again when the lease has expired; it may also be recorded.
    Store(StoreError),
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::LostLease(lost) => lost.fmt(f),
            ClaimError::Store(error) => write!(f, "the claim could not be ended or extended: {error}"),
        }
    }
}

impl std::error::Error for ClaimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClaimError::LostLease(lost) => Some(lost),
            ClaimError::Store(error) => Some(error),
        }
    }
}

/// An id that is the caller's to handle. Dropping it releases it; if more are dropped at a time than may
/// [wait](crate::TieredBuilder::max_waiting), or the store cannot be asked, the rest end with their leases.
///
/// ```
/// use hapax::{TieredAttempt, TieredDedup, store::InMemoryStore};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
/// if let TieredAttempt::Claimed(claim) = dedup.claim("order-17").await? {
///     // … handle the message, fencing its writes with claim.token() …
///     claim.complete().await?; // recorded in the store, or an error
/// }
/// assert!(dedup.claim("order-17").await?.is_duplicate());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - Until it ends or its lease expires, nobody else gets the id, in any process.
/// - When the lease has expired it can be neither completed nor released nor renewed: [`ClaimError::LostLease`].
/// - `Ok` from [`complete`](TieredClaim::complete) means that the store has recorded it, as durably as it was told to.
#[must_use = "a claim that is not kept is released"]
pub struct TieredClaim<S: Store> {
    inner: Arc<Inner<S>>,
    policy: Arc<PolicyState>,
    key: RecordKey,
    id: Digest,
    fingerprint: Option<Fingerprint>,
    lease: Duration,
    held: Where,
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

impl<S: Store> TieredClaim<S> {
    pub(super) fn new(dedup: &TieredDedup<S>, (key, id): Name, options: &TieredClaimOptions, held: Where) -> Self {
        TieredClaim {
            inner: Arc::clone(&dedup.inner),
            policy: Arc::clone(&dedup.policy),
            key,
            id,
            fingerprint: options.fingerprint,
            lease: options.lease.unwrap_or(dedup.policy.lease),
            held,
            begun: Instant::now(),
            open: true,
        }
    }

    /// What the work's own writes are to be fenced with: it grows from claim to claim of an id. Zero if nobody has verified the claim.
    pub fn token(&self) -> Token {
        Token::from_u64(match self.held {
            // Stores count in microseconds, memory in nanoseconds: so tokens grow when an engine becomes shared or exclusive.
            Where::Store { token } => token.saturating_mul(1_000),
            Where::Here { token } => token,
            Where::Admitted | Where::Shadow => 0,
        })
    }

    /// Whether the id is known to be the caller's: not if the store could not be asked and the policy was to [admit](crate::OnStoreError::Admit),
    /// and not in shadow mode.
    pub fn is_verified(&self) -> bool {
        matches!(self.held, Where::Store { .. } | Where::Here { .. })
    }

    /// The work is done: the id is a duplicate from now on, for its retention.
    ///
    /// # Errors
    ///
    /// [`ClaimError`]. What the work did, it may then do twice.
    pub async fn complete(self) -> Result<(), ClaimError> {
        self.end_completed(None).await
    }

    /// The same, and a result is kept with it, for those who [want it](TieredClaimOptions::wants_result).
    ///
    /// # Errors
    ///
    /// As [`complete`](TieredClaim::complete).
    pub async fn complete_with(self, result: impl Into<Vec<u8>>) -> Result<(), ClaimError> {
        self.end_completed(Some(result.into())).await
    }

    async fn end_completed(mut self, result: Option<Vec<u8>>) -> Result<(), ClaimError> {
        // From here on the work is done: a caller that is dropped must not release the id, or the work would be done again at once.
        self.open = false;
        let completed = self.try_to_complete(result).await;
        self.counted(End::Completed, completed)
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
            Where::Admitted => self.record(result).await,
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

    /// The work was not done: the next delivery gets the id.
    ///
    /// # Errors
    ///
    /// [`ClaimError`]. If the store could not be asked, the lease ends all the same.
    pub async fn release(mut self) -> Result<(), ClaimError> {
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
    }

    /// The work failed, and will for a while: until then the id is in progress for everybody, so that a poison message does not spin.
    ///
    /// # Errors
    ///
    /// [`ClaimError`].
    pub async fn fail(mut self, retry_after: Duration) -> Result<(), ClaimError> {
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
    }

    /// Goes on: the lease is as long as this, from now.
    ///
    /// # Errors
    ///
    /// [`ClaimError`].
    pub async fn renew(&mut self, lease: Duration) -> Result<(), ClaimError> {
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
    }

    /// Renews it every third of its lease, until it is lost.
    #[cfg(any(feature = "http", feature = "stream"))]
    pub(crate) async fn keep(&mut self) {
        loop {
            tokio::time::sleep(self.lease / 3).await;
            // What the store could not do is tried again, and completing says in the end whether that was enough.
            if let Err(ClaimError::LostLease(_)) = self.renew(self.lease).await {
                return;
            }
        }
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
    pub(super) fn close_if_in_store(&mut self, inner: &Arc<Inner<S>>, policy: &Arc<PolicyState>) -> bool {
        let is_theirs = Arc::ptr_eq(&self.inner, inner) && Arc::ptr_eq(&self.policy, policy);
        let in_store = is_theirs && matches!(self.held, Where::Store { .. });
        self.open &= !in_store;
        in_store
    }
}

impl<S: Store> Drop for TieredClaim<S> {
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
                self.inner.runtime.spawn(async move {
                    let _room = room;
                    let _ = inner.ask_one::<Releases>(&policy.memory, hold, id).await;
                });
            }
        }
    }
}

impl<S: Store> fmt::Debug for TieredClaim<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TieredClaim").field("key", &self.key).field("held", &self.held).finish_non_exhaustive()
    }
}
