//! The memory of a consumer of a log: an engine, and the place where its checkpoints are durable.

use hapax::{Dedup, JournalError, Token};
use std::error::Error;

/// The memory of a [`LogConsumer`](crate::LogConsumer): an engine with checkpoints, and the place
/// where they become durable. For a [`Dedup`] that is its journal.
///
/// A memory that others may take over says when it may be asked, and when it is lost: `Owned` of
/// `hapax-handover`, with the feature `stream`, follows a partition of a broker to its next
/// consumer.
pub trait Memory: Send + Sync {
    /// The error of the engine, or of the place.
    type Error: Error + Send + Sync + 'static;

    /// Returns the engine, always the same, also when it may not be asked.
    fn engine(&self) -> &Dedup;

    /// Returns true if the engine may be asked, and handlers may begin, now.
    fn is_usable(&self) -> bool;

    /// Waits until the engine [may be asked](Self::is_usable).
    ///
    /// # Errors
    ///
    /// The reason why it may never be asked any more.
    fn usable(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Makes the last checkpoint durable, with all that is in it. What lies before its positions is
    /// acknowledged after that.
    ///
    /// # Errors
    ///
    /// An error ends the run: nothing more is acknowledged.
    fn persist(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Waits until the memory is not this consumer's any more: the run ends at once, and handlers
    /// are dropped where they wait. Default: never.
    fn lost(&self) -> impl Future<Output = Self::Error> + Send {
        std::future::pending()
    }

    /// Returns the fencing token that handlers get: a number that grows whenever the memory changes
    /// hands. Default: zero.
    fn token(&self) -> Token {
        Token::from_u64(0)
    }
}

impl Memory for Dedup {
    type Error = JournalError;

    fn engine(&self) -> &Dedup {
        self
    }

    fn is_usable(&self) -> bool {
        true
    }

    async fn usable(&self) -> Result<(), JournalError> {
        Ok(())
    }

    async fn persist(&self) -> Result<(), JournalError> {
        self.journal()?.flush_async().await
    }
}
