//! The errors of a run.

use crate::StoreError;
use hapax::LostLease;
use std::fmt;
use std::time::Duration;

/// The reason for which [`TieredDedup::run`](crate::TieredDedup::run) has no result to return.
///
/// ```
/// use hapax_store::{IdempotencyError, InMemoryStore, RunError, TieredDedup};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
/// let work = |cents: u64| move || async move { Ok::<_, std::io::Error>(cents) };
/// let charge = |cents: u64| dedup.run("order-17", cents.to_be_bytes(), work(cents));
/// assert_eq!(charge(100).await?, 100);
/// match charge(999).await {
///     Err(RunError::NotRun(IdempotencyError::Mismatch)) => println!("a key is for one call only"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError<T, E> {
    /// The function has run, now, and has failed. The next caller runs it again, unless errors are
    /// [kept](crate::RunOptions::keep_errors).
    Function(E),
    /// The function has not run, and there is no result of an earlier run.
    NotRun(IdempotencyError),
    /// The function has run, now, with this output, which is not stored.
    NotStored {
        /// The output of the function.
        output: T,
        /// The reason, which says whether the function may run again.
        error: IdempotencyError,
    },
}

/// The reason for which a function that is to run once has not run, or its result is not stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum IdempotencyError {
    /// Another caller runs it, for longer than this one waits.
    InProgress {
        /// The time until its lease ends, unless that is renewed.
        lease_left: Duration,
    },
    /// The key was used for a call with another fingerprint.
    Mismatch,
    /// It failed a short time ago, and its errors are [kept](crate::RunOptions::keep_errors).
    FailedBefore {
        /// The text of the error, of which up to 4 KiB are kept.
        error: String,
        /// The time until the function runs again.
        expires_in: Duration,
    },
    /// This process has so many keys in flight that no more are accepted. Only from an exclusive
    /// engine.
    TooMany,
    /// The store could not be asked, or an option is wrong: nothing has run here.
    Claim(StoreError),
    /// It has run, and its lease was over before the result was stored: another caller may have run
    /// it as well.
    LostLease(LostLease),
    /// It has run, and the store gave no certain answer when the result was to be stored. If it is
    /// not, the function runs again when the lease has ended.
    Complete(StoreError),
    /// It has run, and its result is too large. It does not run again within the retention.
    TooLarge {
        /// The size of the result as JSON.
        bytes: u64,
        /// The [limit](crate::RunOptions::max_result_bytes); `None` if it was the store that
        /// refused the result.
        max: Option<u64>,
    },
    /// It has run, and its result cannot be written as JSON and read back, for the reason given,
    /// which names its type. So it is not stored, and the function does not run again within the
    /// retention.
    Unwritable(String),
    /// It has run, and what the store has of it is no result of this function, for the reason
    /// given: another version of it, or another function, has used the key. It does not run again
    /// within the retention.
    Unreadable(String),
}

impl<T, E> RunError<T, E> {
    /// Returns it as the function's own type of errors. An output that was not stored is dropped.
    ///
    /// ```
    /// use hapax_store::{IdempotencyError, RunError};
    ///
    /// type Error = Box<dyn std::error::Error>;
    ///
    /// let error: RunError<u64, Error> = RunError::NotRun(IdempotencyError::Mismatch);
    /// assert!(error.into_error().is::<IdempotencyError>());
    /// ```
    pub fn into_error(self) -> E
    where
        E: From<IdempotencyError>,
    {
        match self {
            RunError::Function(error) => error,
            RunError::NotRun(error) | RunError::NotStored { error, .. } => error.into(),
        }
    }
}

impl<T, E: fmt::Display> fmt::Display for RunError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Function(error) => error.fmt(f),
            RunError::NotRun(error) | RunError::NotStored { error, .. } => error.fmt(f),
        }
    }
}

impl<T: fmt::Debug, E: std::error::Error + 'static> std::error::Error for RunError<T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::Function(error) => error.source(),
            RunError::NotRun(error) | RunError::NotStored { error, .. } => error.source(),
        }
    }
}

impl fmt::Display for IdempotencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdempotencyError::InProgress { lease_left } => {
                write!(f, "another caller runs it, with a lease of {lease_left:?} yet: try again")
            }
            IdempotencyError::Mismatch => {
                f.write_str("the key was used for another call: expected the same fingerprint, got another one")
            }
            IdempotencyError::FailedBefore { error, expires_in } => {
                write!(f, "it failed before, and runs again in {expires_in:?}: {error}")
            }
            IdempotencyError::TooMany => f.write_str("too many keys are in flight in this process: try again"),
            IdempotencyError::Claim(error) => {
                write!(f, "the key could not be claimed, and nothing has run here: {error}")
            }
            IdempotencyError::LostLease(lost) => {
                write!(f, "it has run, and its result is not stored; it may run again elsewhere: {lost}")
            }
            IdempotencyError::Complete(error) => {
                write!(f, "it has run, and its result may not be stored; it may run again: {error}")
            }
            IdempotencyError::TooLarge { bytes, max: Some(max) } => write!(
                f,
                "it has run, and its result is not stored: got {bytes} bytes, expected at most {max} \
                 (option `max_result_bytes`)"
            ),
            IdempotencyError::TooLarge { bytes, max: None } => {
                write!(f, "it has run, and its result of {bytes} bytes is not stored: the store refuses it")
            }
            IdempotencyError::Unwritable(why) => {
                write!(
                    f,
                    "it has run, and its result is not stored, since it cannot be written as JSON and read back: {why}"
                )
            }
            IdempotencyError::Unreadable(why) => write!(f, "it has run, and its stored result cannot be read: {why}"),
        }
    }
}

impl std::error::Error for IdempotencyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            IdempotencyError::Claim(error) | IdempotencyError::Complete(error) => Some(error),
            IdempotencyError::LostLease(lost) => Some(lost),
            _ => None,
        }
    }
}
