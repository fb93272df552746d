//! Claims of an asynchronous engine, as their holders see them.

use super::completing::NotCompleted;
use super::holder::{Attempt, Holder};
use crate::{Fingerprint, Store, StoreError};
use hapax::{LostLease, Token, Verdict};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

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
    /// How much longer the store has it, if it was asked.
    pub expires_in: Option<Duration>,
}

impl<S: Store> TieredAttempt<S> {
    pub(super) fn of(attempt: Attempt) -> Self {
        match attempt {
            Attempt::Claimed(holder) => TieredAttempt::Claimed(TieredClaim::of(holder)),
            Attempt::InProgress { lease_left } => TieredAttempt::InProgress { lease_left },
            Attempt::Duplicate(done) => TieredAttempt::Duplicate(done),
            Attempt::Mismatch => TieredAttempt::Mismatch,
            Attempt::TooMany => TieredAttempt::TooMany,
        }
    }

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
    pub(super) retention: Option<Duration>,
}

impl TieredClaimOptions {
    /// The policy's lease, no fingerprint.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long the id is the caller's: up to 100 years, not none, or the claim is an error
    /// that says so. Default: as the policy has it.
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

    /// Sets how long the store remembers the id once it is completed. Default: as the policy has
    /// it.
    ///
    /// Memory may say "duplicate" of it for the length of the window, where it is asked. An
    /// exclusive engine's history is made for the policy's retention, so a longer one is an error
    /// there ([`ErrorKind::Misconfigured`](crate::ErrorKind::Misconfigured)), as none at all
    /// and one of more than 100 years are everywhere.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        TieredClaimOptions { retention: Some(retention), ..self }
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
/// One that was to be completed is not released: see [`NotCompleted`].
///
/// ```
/// use hapax_store::{InMemoryStore, TieredAttempt, TieredDedup};
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
    holder: Holder,
    store: PhantomData<Arc<S>>,
}

impl<S: Store> TieredClaim<S> {
    pub(super) fn of(holder: Holder) -> Self {
        TieredClaim { holder, store: PhantomData }
    }

    pub(super) fn holder(self) -> Holder {
        self.holder
    }

    /// What the work's own writes are to be fenced with: it grows from claim to claim of an id. Zero if nobody has verified the claim.
    pub fn token(&self) -> Token {
        self.holder.token()
    }

    /// Whether the id is known to be the caller's: not if the store could not be asked and the policy was to [admit](crate::OnStoreError::Admit),
    /// and not in shadow mode.
    pub fn is_verified(&self) -> bool {
        self.holder.is_verified()
    }

    /// Records that the work is done: the id is a duplicate from now on, for its retention.
    ///
    /// While the store cannot be asked, it is asked again, after 10 ms, then 20 ms, and so on up to
    /// a second, and the lease is renewed, for as long as a lease is: an outage that is shorter
    /// than what is left of the lease changes nothing. Whoever cannot wait drops the future. The
    /// work is not released then either: its lease ends.
    ///
    /// A claim that nobody has [verified](Self::is_verified) has no lease, and is not tried again
    /// here.
    ///
    /// # Errors
    ///
    /// [`NotCompleted`], which has the claim and [`ClaimError`]. It was lost, or the store was away
    /// for a whole lease, or cannot do it: what the work did, it may then do twice.
    pub async fn complete(self) -> Result<(), NotCompleted<S>> {
        self.holder.complete(None).await.map_err(NotCompleted::of)
    }

    /// The same, and a result is kept with it, for those who [want it](TieredClaimOptions::wants_result).
    ///
    /// # Errors
    ///
    /// As [`complete`](TieredClaim::complete).
    pub async fn complete_with(self, result: impl Into<Vec<u8>>) -> Result<(), NotCompleted<S>> {
        self.holder.complete(Some(result.into())).await.map_err(NotCompleted::of)
    }

    /// The work was not done: the next delivery gets the id.
    ///
    /// # Errors
    ///
    /// [`ClaimError`]. If the store could not be asked, the lease ends all the same.
    pub async fn release(self) -> Result<(), ClaimError> {
        self.holder.release().await
    }

    /// The work failed, and will for a while: until then the id is in progress for everybody, so that a poison message does not spin.
    ///
    /// A time of more than 100 years is an error that says so, and the claim is released.
    ///
    /// # Errors
    ///
    /// [`ClaimError`].
    pub async fn fail(self, retry_after: Duration) -> Result<(), ClaimError> {
        self.holder.fail(retry_after).await
    }

    /// Goes on: the lease is as long as this, from now.
    ///
    /// A lease of more than 100 years, or of none, is an error that says so, and changes nothing.
    ///
    /// # Errors
    ///
    /// [`ClaimError`].
    pub async fn renew(&mut self, lease: Duration) -> Result<(), ClaimError> {
        self.holder.renew(lease).await
    }

    /// The place where something is kept beside its id, for those who hold it in turn; nowhere if
    /// nobody has verified the claim.
    #[doc(hidden)]
    pub fn note(&self) -> Option<super::note::Note> {
        self.holder.note()
    }

    /// Says that its work is done: dropping it does not release it any more.
    #[doc(hidden)]
    pub fn work_is_done(&mut self) {
        self.holder.work_is_done();
    }

    /// Renews it every third of its lease, until it is lost.
    #[doc(hidden)]
    pub async fn keep(&mut self) {
        self.holder.keep().await
    }
}

impl<S: Store> fmt::Debug for TieredClaim<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holder { key, held, .. } = &self.holder;
        f.debug_struct("TieredClaim").field("key", key).field("held", held).finish_non_exhaustive()
    }
}
