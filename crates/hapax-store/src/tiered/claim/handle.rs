//! Claims of an asynchronous engine, as their holders see them.

use super::error::ClaimError;
use super::holder::{Attempt, Holder, Unfinished};
use super::options::Done;
#[cfg(doc)]
use super::options::TieredClaimOptions;
use crate::tiered::engine::SideRecord;
use crate::{Before, HeldBy, Store};
use hapax::Token;
use std::fmt;
use std::future::{pending, poll_fn};
use std::marker::PhantomData;
use std::pin::pin;
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
        /// The caller that is at work, if the store was asked and it said [who it
        /// is](crate::TieredBuilder::held_by).
        held_by: Option<HeldBy>,
    },
    /// It is done.
    Duplicate(Done),
    /// It is in progress or done, with another fingerprint.
    Mismatch,
    /// This process has so many ids in flight, about a million, that no more are accepted. Only
    /// from an exclusive engine.
    TooMany,
}

impl<S: Store> TieredAttempt<S> {
    pub(super) fn of(attempt: Attempt) -> Self {
        match attempt {
            Attempt::Claimed(holder) => TieredAttempt::Claimed(TieredClaim::of(holder)),
            Attempt::InProgress { lease_left, held_by } => TieredAttempt::InProgress { lease_left, held_by },
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

    /// Returns the first claim of this id whose lease has expired, if nobody has completed one
    /// since: its work may have been done, in part or in whole. Look where its effect would be
    /// before doing the work again.
    ///
    /// ```
    /// use hapax::ManualClock;
    /// use hapax_store::{HeldBy, InMemoryStore, TieredDedup};
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let clock = ManualClock::new();
    /// let store = InMemoryStore::with_clock(clock.clone());
    /// let dedup = TieredDedup::builder(store).held_by(HeldBy::of("worker-7")).build().await?;
    /// let claim = dedup.claim("mail-17").await?.claimed().expect("nobody else has it");
    /// std::mem::forget(claim); // its process dies
    ///
    /// clock.advance(Duration::from_secs(30));
    /// let claim = dedup.claim("mail-17").await?.claimed().expect("its lease is over");
    /// let before = claim.before().expect("the mail may have been sent");
    /// assert_eq!(before.held_by(), Some(&HeldBy::of("worker-7")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The store knows it for the [retention](crate::TieredBuilder::retention) after the lease, as
    /// it would know a completion. It is not known of claims in memory alone, those of an exclusive
    /// engine, which end with their process.
    pub fn before(&self) -> Option<&Before> {
        self.holder.before.as_deref()
    }

    /// Records that the work is done: the id is a duplicate from now on, for its retention.
    ///
    /// While the store cannot be asked, the completion is repeated, after 10 ms, then 20 ms, and so
    /// on up to a second, and the lease is renewed, for as long as one lease: an outage that is
    /// shorter than the rest of the lease changes nothing. A caller that cannot wait drops the
    /// future. The id is not released then either: its lease ends.
    ///
    /// A claim that is not [verified](Self::is_verified) has no lease, and is not tried again here.
    /// While the store is away its completion is an error, but this process remembers it: the next
    /// copy that comes here within the window is a duplicate.
    ///
    /// # Errors
    ///
    /// [`NotCompleted`], which has the claim and [`ClaimError`]. The claim was lost, or the store
    /// was unavailable for a whole lease, or cannot do it: the effects of the work may then happen
    /// twice.
    pub async fn complete(self) -> Result<(), NotCompleted<S>> {
        self.holder.complete(None, true).await.map_err(NotCompleted::of)
    }

    /// Completes the claim, and stores a result with it, for callers that [want
    /// it](TieredClaimOptions::wants_result).
    ///
    /// # Errors
    ///
    /// Those of [`complete`](TieredClaim::complete).
    pub async fn complete_with(self, result: impl Into<Vec<u8>>) -> Result<(), NotCompleted<S>> {
        self.holder.complete(Some(result.into()), true).await.map_err(NotCompleted::of)
    }

    /// Releases the id, because the work was not done: the next delivery gets it.
    ///
    /// # Errors
    ///
    /// [`ClaimError`]. If the store could not be asked, the lease ends all the same.
    pub async fn release(self) -> Result<(), ClaimError> {
        self.holder.give_up(None).await
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
        self.holder.give_up(Some(retry_after)).await
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

    /// Returns the record that is stored beside the id for its successive holders, or `None` if the
    /// claim is not verified.
    #[doc(hidden)]
    pub fn side_record(&self) -> Option<SideRecord> {
        self.holder.side_record()
    }

    /// Notes that the work is done: dropping the claim does not release it any more.
    #[doc(hidden)]
    pub fn work_is_done(&mut self) {
        self.holder.work_is_done();
    }

    /// Renews the claim every third of its lease, until it is lost.
    #[doc(hidden)]
    pub async fn keep(&mut self) {
        Holder::keep(vec![&mut self.holder]).await;
    }

    /// Renews claims together, every third of their shortest lease, until some are lost. Returns
    /// the places of these; never, if there are no claims.
    #[doc(hidden)]
    pub async fn keep_all(claims: Vec<&mut Self>) -> Vec<usize> {
        Holder::keep(claims.into_iter().map(|claim| &mut claim.holder).collect()).await
    }

    /// Returns the output of the work, and renews the claim every third of its lease until then. If
    /// the claim is lost, the work goes on, since it cannot be undone; completing the claim says so
    /// in the end.
    #[doc(hidden)]
    pub async fn keep_while<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut kept = pin!(async {
            self.keep().await;
            pending::<()>().await
        });
        poll_fn(|context| {
            let done = work.as_mut().poll(context);
            if done.is_pending() {
                let _never = kept.as_mut().poll(context);
            }
            done
        })
        .await
    }

    /// Completes the claim for a retention of its own, with one try.
    #[cfg(feature = "json")]
    pub(crate) async fn complete_once_for(self, result: Vec<u8>, retention: Duration) -> Result<(), NotCompleted<S>> {
        self.holder.remembered_for(retention).complete(Some(result), false).await.map_err(NotCompleted::of)
    }
}

impl<S: Store> fmt::Debug for TieredClaim<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holder { key, held, .. } = &self.holder;
        f.debug_struct("TieredClaim").field("key", key).field("held", held).finish_non_exhaustive()
    }
}

/// A completion that is not recorded, as far as is known, and its claim.
///
/// ```
/// use hapax_store::{ClaimError, InMemoryStore, TieredAttempt, TieredDedup};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
/// let claim = dedup.claim("order-17").await?.claimed().expect("nobody else has it");
/// // … the work …
/// if let Err(not_completed) = claim.complete().await {
///     match not_completed.error() {
///         ClaimError::LostLease(_) => println!("somebody else may do the work again"),
///         // The store was away for as long as the lease is: once more, for as long.
///         _ => not_completed.retry().await?,
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it, as `?` does in the end, does not release the claim: the work is done, and would be
/// done again at once. The id stays in progress until its lease ends, and is free then, unless the
/// completion was recorded after all and only its answer was lost.
#[must_use = "the work is done, and is done again when the lease has ended"]
pub struct NotCompleted<S: Store> {
    unfinished: Box<Unfinished>,
    store: PhantomData<Arc<S>>,
}

impl<S: Store> NotCompleted<S> {
    pub(super) fn of(unfinished: Box<Unfinished>) -> Self {
        NotCompleted { unfinished, store: PhantomData }
    }

    /// Returns the reason for which it is not recorded.
    pub fn error(&self) -> &ClaimError {
        &self.unfinished.error
    }

    /// Tries to complete the claim again, with its result, for as long as one lease.
    ///
    /// # Errors
    ///
    /// Those of [`complete`](TieredClaim::complete): another error like this one.
    pub async fn retry(self) -> Result<(), NotCompleted<S>> {
        let Unfinished { holder, result, .. } = *self.unfinished;
        holder.complete(result, true).await.map_err(NotCompleted::of)
    }

    /// Returns the claim. Dropping it does not release it; to have the work done again before its
    /// lease ends, [release](TieredClaim::release) it.
    pub fn into_claim(self) -> TieredClaim<S> {
        TieredClaim::of(self.unfinished.holder)
    }

    /// Returns the reason for which it is not recorded, and drops the claim, which stays in
    /// progress until its lease ends.
    pub fn into_error(self) -> ClaimError {
        self.unfinished.error
    }
}

impl<S: Store> From<NotCompleted<S>> for ClaimError {
    fn from(not_completed: NotCompleted<S>) -> Self {
        not_completed.into_error()
    }
}

impl<S: Store> fmt::Debug for NotCompleted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { holder, error, .. } = &*self.unfinished;
        f.debug_struct("NotCompleted").field("key", &holder.key).field("error", error).finish_non_exhaustive()
    }
}

impl<S: Store> fmt::Display for NotCompleted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the work was done, but not recorded: {}", self.unfinished.error)
    }
}

impl<S: Store> std::error::Error for NotCompleted<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.unfinished.error)
    }
}
