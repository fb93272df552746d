//! A claim of a hot key: of many deliveries with one key, one works, and the others go back to the
//! broker, instead of waiting for its lock with a connection each.

use hapax::Key;
use hapax_store::{ClaimError, Store, StoreError, TieredAttempt, TieredDedup};
use std::fmt;
use std::time::Duration;

/// The result of [`once_per_key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The work was done, as of now or before. Acknowledge the message.
    Done,
    /// Another one is at work. Give the message back, to come again after this time.
    Later(Duration),
}

/// The reason for which a message must come again.
#[derive(Debug)]
pub enum TurnError<E> {
    /// The store could not be asked. The work was not begun.
    Claim(StoreError),
    /// The work failed.
    Work(E),
    /// The work was done, and that could not be recorded: when the lease has ended, it is repeated.
    Complete(ClaimError),
}

impl<E: fmt::Display> fmt::Display for TurnError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TurnError::Claim(error) => write!(f, "the key could not be claimed: {error}"),
            TurnError::Work(error) => write!(f, "the work failed: {error}"),
            TurnError::Complete(error) => write!(f, "the work was done, and not recorded: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for TurnError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TurnError::Claim(error) => Some(error),
            TurnError::Work(error) => Some(error),
            TurnError::Complete(error) => Some(error),
        }
    }
}

/// Does the work of a key, unless it is done or somebody else is at it. The lease is renewed while
/// the work runs. `work` takes what is scarce, like a connection, after it is called.
///
/// Whatever comes with the key after that, within the retention, is [`Done`](Turn::Done) without
/// any work. So the key says what the work covers: the shop's ranking *as of 12:00*, not the shop.
///
/// # Errors
///
/// [`TurnError`]. Let the message come again.
pub async fn once_per_key<S: Store, E, F: Future<Output = Result<(), E>>>(
    dedup: &TieredDedup<S>,
    key: &Key,
    work: impl FnOnce() -> F,
) -> Result<Turn, TurnError<E>> {
    let mut claim = match dedup.claim(key).await.map_err(TurnError::Claim)? {
        TieredAttempt::Claimed(claim) => claim,
        TieredAttempt::Duplicate(_) => return Ok(Turn::Done),
        TieredAttempt::InProgress { lease_left, .. } => return Ok(Turn::Later(lease_left)),
        // None of these claims has a fingerprint; and too many are in flight only for a while.
        TieredAttempt::Mismatch | TieredAttempt::TooMany => return Ok(Turn::Later(Duration::from_secs(1))),
    };
    if let Err(error) = claim.keep_while(work()).await {
        let _ = claim.release().await; // if that fails, too, the lease ends
        return Err(TurnError::Work(error));
    }
    claim.complete().await.map_err(|error| TurnError::Complete(error.into_error()))?;
    Ok(Turn::Done)
}
