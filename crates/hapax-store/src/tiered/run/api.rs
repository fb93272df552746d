//! Runs as users of an asynchronous engine see them.

use super::error::{IdempotencyError, RunError};
use super::options::RunOptions;
use super::outcome;
use crate::tiered::claim::{ClaimError, Done, TieredAttempt, TieredClaim};
use crate::tiered::dedup::TieredDedup;
use crate::{Store, detached};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::time::Duration;

impl<S: Store> TieredDedup<S> {
    /// Runs a function once for a key, and returns its result, to later callers as well: a retry of
    /// a call, in this process or another, gets the result of the first one.
    ///
    /// ```
    /// use hapax_store::{InMemoryStore, TieredDedup};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let mut charged = 0;
    /// for _retry in 0..3 {
    ///     let receipt = dedup.run("order-17", "amount=100", || async {
    ///         charged += 100;
    ///         Ok::<_, std::io::Error>(format!("charged {charged}"))
    ///     });
    ///     assert_eq!(receipt.await?, "charged 100");
    /// }
    /// assert_eq!(charged, 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The fingerprint is what else makes it this call: its arguments, say, as bytes. The same key
    /// with another fingerprint is [`IdempotencyError::Mismatch`]. The key is one of this engine's
    /// ids: two functions need different keys, or [scopes](TieredDedup::with_scope).
    ///
    /// The result is stored as JSON, and is read back before: of one that cannot be (a NaN, a map
    /// whose keys are tuples) all callers get [`Unwritable`](IdempotencyError::Unwritable), the
    /// first one with the output, and nothing runs again: the effect is done. What JSON does not
    /// tell apart (`None`, `Some(NaN)` and `Some(())`) later callers do not either. A later release
    /// of the program reads the results of this one: a new field needs `#[serde(default)]`. Of a
    /// type that it cannot read, retries get [`Unreadable`](IdempotencyError::Unreadable) until the
    /// retention ends, and nothing runs; with another key they would run again. With the attribute
    /// `once` of `hapax-macros` this is one line above a function.
    ///
    /// # Guarantees
    ///
    /// - Of callers at the same time one runs the function; the others [wait](RunOptions::wait) for
    ///   its result. Its claim is renewed for as long as it runs.
    /// - If it returns an error, panics or is dropped, the next caller runs it. An error may be
    ///   [kept](RunOptions::keep_errors) for a while instead.
    /// - Once it has returned a result, that is stored even if the caller is dropped.
    /// - It may run again only after the retention; if its process is gone before the result is
    ///   stored, when the lease has ended; and if the store is away for longer than the lease. An
    ///   effect that must not happen twice even then is fenced: [`claim`](TieredDedup::claim) has
    ///   tokens.
    /// - If the policy [admits](crate::OnStoreError::Admit) messages that the store could not be
    ///   asked about, or is a shadow, the function runs without that, and returns its output even
    ///   if the store is still away.
    ///
    /// # Errors
    ///
    /// [`RunError`]: the function's own; [`NotRun`](RunError::NotRun), if nothing ran;
    /// [`NotStored`](RunError::NotStored), with the output.
    ///
    /// # Cost
    ///
    /// Two requests to the store for the first caller, and one every third of the lease; one for a
    /// later one. The result is written as JSON and read once. Who waits looks every 5 ms at first,
    /// and every quarter of a second later on. If the store is away when the function is done, the
    /// caller waits for as long as a lease.
    pub async fn run<T, E, F>(
        &self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        function: impl FnOnce() -> F,
    ) -> Result<T, RunError<T, E>>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
        F: Future<Output = Result<T, E>>,
    {
        self.run_with(key, RunOptions::new().fingerprint(fingerprint), function).await
    }

    /// Runs a function once for a key, as [`run`](TieredDedup::run) does, with
    /// [options](RunOptions).
    ///
    /// # Errors
    ///
    /// Those of [`run`](TieredDedup::run).
    pub async fn run_with<T, E, F>(
        &self,
        key: impl AsRef<[u8]>,
        options: RunOptions,
        function: impl FnOnce() -> F,
    ) -> Result<T, RunError<T, E>>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
        F: Future<Output = Result<T, E>>,
    {
        let refused = |error| RunError::NotRun(IdempotencyError::Claim(error));
        let of_claim = options.claim(self.remembers().0).map_err(refused)?;
        let mut claim = match self.claim_wait_with(key, of_claim, options.wait).await.map_err(refused)? {
            TieredAttempt::Claimed(claim) => claim,
            TieredAttempt::Duplicate(done) => return replayed(done).map_err(RunError::NotRun),
            TieredAttempt::InProgress { lease_left, .. } => {
                return Err(RunError::NotRun(IdempotencyError::InProgress { lease_left }));
            }
            TieredAttempt::Mismatch => return Err(RunError::NotRun(IdempotencyError::Mismatch)),
            TieredAttempt::TooMany => return Err(RunError::NotRun(IdempotencyError::TooMany)),
        };
        match claim.keep_while(function()).await {
            Ok(output) => match self.store_result(claim, &output, options.max_result_bytes).await {
                Ok(()) => Ok(output),
                Err(error) => Err(RunError::NotStored { output, error }),
            },
            Err(error) => {
                end_failed(claim, &error, options.keep_errors).await;
                Err(RunError::Function(error))
            }
        }
    }

    /// Stores the result, even if the caller goes; or the reason for which there is none, which it
    /// returns.
    async fn store_result<T: Serialize + DeserializeOwned>(
        &self,
        mut claim: TieredClaim<S>,
        output: &T,
        max: usize,
    ) -> Result<(), IdempotencyError> {
        // From here on dropping the claim must not have the function run again at once.
        claim.work_is_done();
        let (record, refused) = match outcome::encode(output, max) {
            Ok(record) => (record, Ok(())),
            Err((record, error)) => (record, Err(error)),
        };
        let storing = async move { complete(claim, record).await.and(refused) };
        #[cfg(feature = "tracing")]
        let storing = tracing::Instrument::in_current_span(storing);
        detached::to_its_end(storing, self.engine.client.runtime.clone()).await
    }
}

/// Completes a claim with a record. If the store refuses the record, and not one without the
/// result, it was too large.
async fn complete<S: Store>(claim: TieredClaim<S>, record: Vec<u8>) -> Result<(), IdempotencyError> {
    let (bytes, is_verified) = (outcome::json_bytes(&record), claim.is_verified());
    let Err(not_completed) = claim.complete_with(record).await else { return Ok(()) };
    let error = match not_completed.error() {
        ClaimError::LostLease(lost) => return Err(IdempotencyError::LostLease(*lost)),
        ClaimError::Store(error) => error.clone(),
    };
    if !is_verified && error.kind().is_transient() {
        // The policy admits calls that the store cannot be asked about: nobody was promised that
        // this one is recorded.
        return Ok(());
    }
    if error.kind() != crate::ErrorKind::Misconfigured {
        return Err(IdempotencyError::Complete(error));
    }
    let (small, too_large) = outcome::too_large(bytes, None);
    match not_completed.into_claim().complete_with(small).await {
        Ok(()) => Err(too_large),
        Err(_) => Err(IdempotencyError::Complete(error)),
    }
}

/// Ends the claim of a function that has failed. If that fails as well, the lease ends it, and the
/// caller has the error that matters.
async fn end_failed<S: Store>(claim: TieredClaim<S>, error: &impl Display, keep: Option<Duration>) {
    match keep {
        Some(time) => drop(claim.complete_once_for(outcome::encode_error(error), time).await),
        None => drop(claim.release().await),
    }
}

/// Returns the result of an earlier run.
fn replayed<T: DeserializeOwned>(done: Done) -> Result<T, IdempotencyError> {
    match done.result {
        Some(record) => outcome::decode(&record, done.expires_in.unwrap_or_default()),
        None => Err(IdempotencyError::Unreadable("it was completed without one".into())),
    }
}
