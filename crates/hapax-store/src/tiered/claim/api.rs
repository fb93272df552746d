//! Claims as users of an asynchronous engine see them.

use super::handle::{NotCompleted, TieredAttempt, TieredClaim};
use super::options::{Done, TieredClaimOptions};
use crate::tiered::dedup::TieredDedup;
use crate::tiered::engine::Name;
use crate::{Fingerprint, Store, StoreError};
use hapax::Token;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// The result of [`TieredDedup::once`], if nothing went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TieredOnce<T> {
    /// The work was done, now, with this output, and its completion is recorded.
    Done(T),
    /// Another caller is at work on it.
    InProgress {
        /// The time until the id is free.
        lease_left: Duration,
    },
    /// It was done before.
    Duplicate(Done),
    /// Too many ids are in flight in this process.
    TooMany,
}

/// The reason for which [`TieredDedup::once`] did not complete.
#[non_exhaustive]
pub enum TieredOnceError<S: Store, T, E> {
    /// The id could not be claimed. The work was not begun.
    Claim(StoreError),
    /// The work failed. The id was released: the next delivery is handled.
    Work(E),
    /// The work was done, but its completion could not be recorded for as long as one lease.
    Complete {
        /// The output of the work.
        output: T,
        /// The reason for which it was not recorded, and the claim, which may be tried again.
        error: NotCompleted<S>,
    },
}

impl<S: Store, T: fmt::Debug, E: fmt::Debug> fmt::Debug for TieredOnceError<S, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TieredOnceError::Claim(error) => f.debug_tuple("Claim").field(error).finish(),
            TieredOnceError::Work(error) => f.debug_tuple("Work").field(error).finish(),
            TieredOnceError::Complete { output, error } => {
                f.debug_struct("Complete").field("output", output).field("error", error).finish()
            }
        }
    }
}

impl<S: Store, T, E: fmt::Display> fmt::Display for TieredOnceError<S, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TieredOnceError::Claim(error) => write!(f, "the id could not be claimed: {error}"),
            TieredOnceError::Work(error) => write!(f, "the work failed, and its id was released: {error}"),
            TieredOnceError::Complete { error, .. } => error.fmt(f),
        }
    }
}

impl<S: Store, T: fmt::Debug, E: std::error::Error + 'static> std::error::Error for TieredOnceError<S, T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TieredOnceError::Claim(error) => Some(error),
            TieredOnceError::Work(error) => Some(error),
            TieredOnceError::Complete { error, .. } => Some(error.error()),
        }
    }
}

impl<S: Store> TieredDedup<S> {
    /// Claims an id: no other caller gets it, in any process, until the claim is completed,
    /// released or dropped, or its lease has expired.
    ///
    /// ```
    /// # use hapax_store::{InMemoryStore, TieredDedup};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let claim = dedup.claim("a").await?.claimed().expect("nobody else has it");
    /// assert!(dedup.claim("a").await?.is_in_progress());
    /// claim.complete().await?;
    /// assert!(dedup.claim("a").await?.is_duplicate());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The store's, unless the policy admits messages then. Nothing is claimed, or the lease
    /// expires by itself.
    pub fn claim(&self, id: impl AsRef<[u8]>) -> impl Future<Output = Result<TieredAttempt<S>, StoreError>> + Send {
        self.claim_with(id, TieredClaimOptions::new())
    }

    /// Claims an id with a lease of its own, a fingerprint of the message, or a request for the
    /// result; see [`TieredClaimOptions`].
    ///
    /// # Errors
    ///
    /// Those of [`claim`](TieredDedup::claim).
    pub fn claim_with(
        &self,
        id: impl AsRef<[u8]>,
        options: TieredClaimOptions,
    ) -> impl Future<Output = Result<TieredAttempt<S>, StoreError>> + Send {
        let name = self.engine.name(id);
        async move {
            let attempt = match self.engine.claim_in_memory(name, &options) {
                Ok(attempt) => attempt,
                Err(name) => self.engine.claim(name, options).await,
            };
            attempt.map(TieredAttempt::of)
        }
    }

    /// Claims an id, but waits up to this long while it is in progress.
    ///
    /// [`TieredAttempt::InProgress`] means that the time is up. It asks again after 5 ms, twice
    /// that, and so on up to a quarter of a second, which is also the longest delay after the id
    /// becomes free.
    ///
    /// # Errors
    ///
    /// Those of [`claim`](TieredDedup::claim).
    pub fn claim_wait(
        &self,
        id: impl AsRef<[u8]>,
        patience: Duration,
    ) -> impl Future<Output = Result<TieredAttempt<S>, StoreError>> + Send {
        self.claim_wait_with(id, TieredClaimOptions::new(), patience)
    }

    /// Claims an id with [options](TieredClaimOptions), and waits as
    /// [`claim_wait`](TieredDedup::claim_wait) does. With
    /// [`wants_result`](TieredClaimOptions::wants_result), a caller that waited for another one's
    /// work gets its result.
    ///
    /// # Errors
    ///
    /// Those of [`claim`](TieredDedup::claim).
    pub fn claim_wait_with(
        &self,
        id: impl AsRef<[u8]>,
        options: TieredClaimOptions,
        patience: Duration,
    ) -> impl Future<Output = Result<TieredAttempt<S>, StoreError>> + Send {
        let name = self.engine.name(id);
        async move { self.engine.claim_wait(name, options, patience).await.map(TieredAttempt::of) }
    }

    /// Claims many ids, in order: one attempt or error for each.
    pub fn claim_batch<I>(&self, ids: I) -> impl Future<Output = Vec<Result<TieredAttempt<S>, StoreError>>> + Send
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let names = self.engine.names(ids);
        async move { self.claim_named(names).await }
    }

    /// Claims many ids, in order, each with the fingerprint of its message, if it has one.
    #[doc(hidden)]
    pub async fn claim_batch_by(
        &self,
        ids: Vec<(Vec<u8>, Option<Fingerprint>)>,
    ) -> Vec<Result<TieredAttempt<S>, StoreError>> {
        let options = |fingerprint| TieredClaimOptions { fingerprint, ..TieredClaimOptions::new() };
        let claims = ids.into_iter().map(|(id, fingerprint)| (self.engine.name(id), options(fingerprint))).collect();
        self.engine.claim_named(claims).await.into_iter().map(|it| it.map(TieredAttempt::of)).collect()
    }

    /// Claims ids that were named before.
    #[doc(hidden)]
    pub async fn claim_named(&self, names: Vec<Name>) -> Vec<Result<TieredAttempt<S>, StoreError>> {
        let claims = names.into_iter().map(|name| (name, TieredClaimOptions::new())).collect();
        self.engine.claim_named(claims).await.into_iter().map(|it| it.map(TieredAttempt::of)).collect()
    }

    /// Completes many claims, in order, each as [`complete`](TieredClaim::complete) does. A claim
    /// that the store could not complete is tried again, without the others, for as long as its
    /// lease. The answers are returned when the last one is there.
    ///
    /// If `claims` panics, the claims that it has returned until then are completed first; the rest
    /// is dropped.
    pub async fn complete_batch(
        &self,
        claims: impl IntoIterator<Item = TieredClaim<S>>,
    ) -> Vec<Result<(), NotCompleted<S>>> {
        let mut holders = Vec::new();
        // Their work is done: releasing them, as dropping does, would have it done again.
        let take = AssertUnwindSafe(|| claims.into_iter().for_each(|claim| holders.push(claim.holder())));
        let taken = catch_unwind(take);
        let ended = self.engine.complete_batch(holders, true).await;
        taken.unwrap_or_else(|panic| resume_unwind(panic));
        ended.into_iter().map(|completed| completed.map_err(NotCompleted::of)).collect()
    }

    /// Completes claims with one try, for callers that try again themselves.
    #[doc(hidden)]
    pub async fn complete_batch_once(&self, claims: Vec<TieredClaim<S>>) -> Vec<Result<(), NotCompleted<S>>> {
        let holders = claims.into_iter().map(TieredClaim::holder).collect();
        let ended = self.engine.complete_batch(holders, false).await;
        ended.into_iter().map(|completed| completed.map_err(NotCompleted::of)).collect()
    }

    /// Claims an id, does the work, and completes the claim; releases it if the work fails, panics
    /// or is dropped.
    ///
    /// ```
    /// # use hapax_store::{InMemoryStore, TieredDedup, TieredOnce};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let parse = |id: &'static str| dedup.once(id, move |_token| async move { id.parse::<u64>() });
    /// assert_eq!(parse("17").await?, TieredOnce::Done(17));
    /// assert!(matches!(parse("17").await?, TieredOnce::Duplicate(_)));
    /// assert!(parse("seventeen").await.is_err());
    /// assert!(parse("seventeen").await.is_err()); // handled again, since it failed
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The work gets the fencing token for its own writes. It should take less than the lease;
    /// where it may not, use [`claim`](TieredDedup::claim), and renew, or `run` (feature `json`),
    /// which also stores the output, and returns it to whoever comes later. Its completion is tried
    /// for as long as one lease, like that of a [claim](TieredClaim::complete).
    ///
    /// # Errors
    ///
    /// [`TieredOnceError`]: the claim, the work or the completion.
    pub async fn once<T, E, F>(
        &self,
        id: impl AsRef<[u8]>,
        work: impl FnOnce(Token) -> F,
    ) -> Result<TieredOnce<T>, TieredOnceError<S, T, E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let claim = match self.claim(id).await.map_err(TieredOnceError::Claim)? {
            TieredAttempt::Claimed(claim) => claim,
            TieredAttempt::InProgress { lease_left, .. } => return Ok(TieredOnce::InProgress { lease_left }),
            TieredAttempt::Duplicate(done) => return Ok(TieredOnce::Duplicate(done)),
            TieredAttempt::TooMany => return Ok(TieredOnce::TooMany),
            TieredAttempt::Mismatch => unreachable!("there is no fingerprint"),
        };
        let output = match work(claim.token()).await {
            Ok(output) => output,
            Err(error) => {
                // If that fails, the lease expires; the caller has the error that matters.
                let _ = claim.release().await;
                return Err(TieredOnceError::Work(error));
            }
        };
        match claim.complete().await {
            Ok(()) => Ok(TieredOnce::Done(output)),
            Err(error) => Err(TieredOnceError::Complete { output, error }),
        }
    }
}
