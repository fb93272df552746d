//! Claims of an asynchronous engine, as their holders see them.

use super::completing::NotCompleted;
use super::holder::{Attempt, Holder};
use crate::{Fingerprint, Store, StoreError};
use hapax::{LostLease, Token, Verdict};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// The result of an attempt to claim an id.
#[derive(Debug)]
#[must_use = "a claim that is not kept is released"]
pub enum TieredAttempt<S: Store> {
    /// The id is the caller's to handle, until the lease expires.
    Claimed(TieredClaim<S>),
    /// Another caller is at work, or has failed a short time ago. Nothing is decided: the message
    /// must come again.
    InProgress {
        /// The time until the id is free, unless its claim is renewed, completed or released
        /// before.
        lease_left: Duration,
    },
    /// It is done.
    Duplicate(Done),
    /// It is in progress or done, with another fingerprint.
    Mismatch,
    /// This process has so many ids in flight, about a million, that no more are accepted. Only
    /// from an exclusive engine.
    TooMany,
}

/// An id that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Done {
    /// The verdict, with its source.
    pub verdict: Verdict,
    /// The result that was stored with the completion, if there was one and the store was asked:
    /// memory does not know results. A claim that [wants it](TieredClaimOptions::wants_result) asks
    /// the store.
    pub result: Option<Vec<u8>>,
    /// The time for which the store still has it, if the store was asked.
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

    /// Returns the claim, if there is one.
    pub fn claimed(self) -> Option<TieredClaim<S>> {
        match self {
            TieredAttempt::Claimed(claim) => Some(claim),
            _ => None,
        }
    }

    /// Returns true if the id is done already.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, TieredAttempt::Duplicate(_))
    }

    /// Returns true if another caller is at work on the id.
    pub fn is_in_progress(&self) -> bool {
        matches!(self, TieredAttempt::InProgress { .. })
    }
}

/// Options of a single claim, where they differ from the policy's.
#[derive(Clone, Copy, Debug, Default)]
pub struct TieredClaimOptions {
    pub(super) lease: Option<Duration>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) wants_result: bool,
    pub(super) retention: Option<Duration>,
}

impl TieredClaimOptions {
    /// Creates the default options: the policy's lease, no fingerprint.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time for which the id is the caller's: up to 100 years. Zero or more than that
    /// makes the claim an error that says so. Default: the policy's.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        TieredClaimOptions { lease: Some(lease), ..self }
    }

    /// Sets the content of the message besides its id: a claim of the same id
    /// with another fingerprint is a [mismatch](TieredAttempt::Mismatch). Such claims ask the store
    /// even if memory knows the id, since memory does not know the message.
    #[must_use]
    pub fn fingerprint(self, message: impl AsRef<[u8]>) -> Self {
        TieredClaimOptions { fingerprint: Some(Fingerprint::of(message)), ..self }
    }

    /// Sets the time for which the store remembers the id once it is completed. Default: the
    /// policy's.
    ///
    /// Memory may answer "duplicate" for the length of the window, where it is asked. An exclusive
    /// engine's history is made for the policy's retention, so a longer one is an error there
    /// ([`ErrorKind::Misconfigured`](crate::ErrorKind::Misconfigured)). Zero and more than
    /// 100 years are errors everywhere.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        TieredClaimOptions { retention: Some(retention), ..self }
    }

    /// Requests the result of an id that is done: then the store is asked even if memory knows that
    /// it is done.
    #[must_use]
    pub fn wants_result(self) -> Self {
        TieredClaimOptions { wants_result: true, ..self }
    }
}

/// The reason for which a claim could not be completed, released or renewed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClaimError {
    /// Its lease has expired, and another caller may have taken it over. Nothing was changed.
    LostLease(LostLease),
    /// The store gave no certain answer. If the work was done, it may be done again when the lease
    /// has expired; it may also be recorded.
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

/// An id that is the caller's to handle. Dropping it releases it; if more are dropped at a time
/// than may [wait](crate::TieredBuilder::max_waiting), or the store cannot be asked, the rest end
/// with their leases. A claim that was to be completed is not released: see [`NotCompleted`].
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
/// - Until it ends or its lease expires, no other caller gets the id, in any process.
/// - When the lease has expired it can be neither completed nor released nor renewed:
///   [`ClaimError::LostLease`].
/// - `Ok` from [`complete`](TieredClaim::complete) means that the store has recorded it, as durably
///   as it is configured to.
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

    /// Returns the fencing token for the work's own writes: it grows from claim to claim of an id.
    /// Zero if the claim is not verified.
    pub fn token(&self) -> Token {
        self.holder.token()
    }

    /// Returns true if the id is known to be the caller's. It is not if the store could not be
    /// asked and the policy [admitted](crate::OnStoreError::Admit) the message, and not in shadow
    /// mode.
    pub fn is_verified(&self) -> bool {
        self.holder.is_verified()
    }

    /// Records that the work is done: the id is a duplicate from now on, for its retention.
    ///
    /// While the store cannot be asked, the completion is repeated, after 10 ms, then 20 ms, and so
    /// on up to a second, and the lease is renewed, for as long as one lease: an outage that is
    /// shorter than the rest of the lease changes nothing. A caller that cannot wait drops the
    /// future. The id is not released then either: its lease ends.
    ///
    /// A claim that is not [verified](Self::is_verified) has no lease, and is not tried again here.
    ///
    /// # Errors
    ///
    /// [`NotCompleted`], which has the claim and [`ClaimError`]. The claim was lost, or the store
    /// was unavailable for a whole lease, or cannot do it: the effects of the work may then happen
    /// twice.
    pub async fn complete(self) -> Result<(), NotCompleted<S>> {
        self.holder.complete(None).await.map_err(NotCompleted::of)
    }

    /// Completes the claim, and stores a result with it, for callers that [want
    /// it](TieredClaimOptions::wants_result).
    ///
    /// # Errors
    ///
    /// Those of [`complete`](TieredClaim::complete).
    pub async fn complete_with(self, result: impl Into<Vec<u8>>) -> Result<(), NotCompleted<S>> {
        self.holder.complete(Some(result.into())).await.map_err(NotCompleted::of)
    }

    /// Releases the id, because the work was not done: the next delivery gets it.
    ///
    /// # Errors
    ///
    /// [`ClaimError`]. If the store could not be asked, the lease ends all the same.
    pub async fn release(self) -> Result<(), ClaimError> {
        self.holder.release().await
    }

    /// Notes that the work failed, and will for a while: until then the id is in progress for all
    /// callers, so that a poison message does not spin.
    ///
    /// A time of more than 100 years is an error that says so, and the claim is released.
    ///
    /// # Errors
    ///
    /// [`ClaimError`].
    pub async fn fail(self, retry_after: Duration) -> Result<(), ClaimError> {
        self.holder.fail(retry_after).await
    }

    /// Renews the claim: its lease is this long, from now.
    ///
    /// A lease of zero or of more than 100 years is an error that says so, and changes nothing.
    ///
    /// # Errors
    ///
    /// [`ClaimError`].
    pub async fn renew(&mut self, lease: Duration) -> Result<(), ClaimError> {
        self.holder.renew(lease).await
    }

    /// Returns the note that is stored beside the id for its successive holders, or `None` if the
    /// claim is not verified.
    #[doc(hidden)]
    pub fn note(&self) -> Option<super::note::Note> {
        self.holder.note()
    }

    /// Notes that the work is done: dropping the claim does not release it any more.
    #[doc(hidden)]
    pub fn work_is_done(&mut self) {
        self.holder.work_is_done();
    }

    /// Renews the claim every third of its lease, until it is lost.
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
