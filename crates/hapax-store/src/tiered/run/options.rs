//! The options of a run.

use crate::backend::option;
use crate::backend::times::{self, HUNDRED_YEARS};
use crate::tiered::claim::TieredClaimOptions;
use crate::{Fingerprint, StoreError};
use std::time::Duration;

/// The largest `max_result_bytes`: less than every backend's limit.
const MAX_RESULT_BYTES: usize = 256 << 20;

/// Options of [`TieredDedup::run_with`](crate::TieredDedup::run_with).
///
/// ```
/// use hapax_store::RunOptions;
/// use std::time::Duration;
///
/// const OPTIONS: RunOptions =
///     RunOptions::new().wait(Duration::from_secs(5)).keep_errors(Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "options do nothing by themselves"]
pub struct RunOptions {
    fingerprint: Option<Fingerprint>,
    lease: Option<Duration>,
    retention: Option<Duration>,
    pub(super) wait: Duration,
    pub(super) keep_errors: Option<Duration>,
    pub(super) max_result_bytes: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RunOptions {
    /// Creates the default options: the policy's lease and retention, no fingerprint.
    pub const fn new() -> Self {
        RunOptions {
            fingerprint: None,
            lease: None,
            retention: None,
            wait: Duration::from_secs(30),
            keep_errors: None,
            max_result_bytes: 1 << 20,
        }
    }

    /// Sets the content of the call besides its key: the same key with another fingerprint is
    /// [`IdempotencyError::Mismatch`](crate::IdempotencyError::Mismatch). Default: none, so that
    /// the key alone says which call it is.
    pub fn fingerprint(self, content: impl AsRef<[u8]>) -> Self {
        RunOptions { fingerprint: Some(Fingerprint::of(content)), ..self }
    }

    /// Sets the time for which nobody else runs the function if this process is gone: up to 100
    /// years. While the function runs it is renewed. Default: the policy's.
    pub const fn lease(self, lease: Duration) -> Self {
        RunOptions { lease: Some(lease), ..self }
    }

    /// Sets the time for which the result is replayed; after that the function runs again. Default:
    /// the policy's, which is also the most with an exclusive engine.
    pub const fn retention(self, retention: Duration) -> Self {
        RunOptions { retention: Some(retention), ..self }
    }

    /// Sets the longest wait for another caller that runs the function, up to 100 years. Zero does
    /// not wait. Default: 30 s.
    pub const fn wait(self, wait: Duration) -> Self {
        RunOptions { wait, ..self }
    }

    /// Keeps errors of the function for this long, at most the retention: until then it does not
    /// run again, and callers get the error's text
    /// ([`IdempotencyError::FailedBefore`](crate::IdempotencyError::FailedBefore)). Default: errors
    /// are not kept, and the next caller runs the function again.
    pub const fn keep_errors(self, time: Duration) -> Self {
        RunOptions { keep_errors: Some(time), ..self }
    }

    /// Sets the largest result that is stored, in bytes of JSON, up to 256 MiB. Default: 1 MiB.
    pub const fn max_result_bytes(self, bytes: usize) -> Self {
        RunOptions { max_result_bytes: bytes, ..self }
    }

    /// Returns the options of the claim, with the time for which the results are remembered.
    pub(super) fn claim(&self, policy: Duration) -> Result<TieredClaimOptions, StoreError> {
        times::check_or_none("wait", self.wait)?;
        let bytes = self.max_result_bytes;
        option::check("hapax", bytes <= MAX_RESULT_BYTES, "max_result_bytes", &bytes, "at most 256 MiB")?;
        if let Some(time) = self.keep_errors {
            let retention = self.retention.unwrap_or(policy).min(HUNDRED_YEARS);
            let expected = format!("up to the retention, {retention:?}, not none");
            option::check("hapax", !time.is_zero() && time <= retention, "keep_errors", &time, &expected)?;
        }
        let RunOptions { fingerprint, lease, retention, .. } = *self;
        Ok(TieredClaimOptions { fingerprint, lease, retention, ..TieredClaimOptions::new() }.wants_result())
    }
}
