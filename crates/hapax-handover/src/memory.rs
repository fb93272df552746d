//! An owned partition as the memory of a consumer of a log.

use crate::{HandoverError, Owned};
use hapax::{Dedup, Token};
use hapax_stream::Memory;

/// Checkpoints are durable when they are [published](Owned::publish), so offsets are committed
/// after that. Handlers get the [epoch](Owned::epoch) as their fencing token.
impl Memory for Owned {
    type Error = HandoverError;

    fn engine(&self) -> &Dedup {
        self.engine_always()
    }

    fn is_usable(&self) -> bool {
        Owned::engine(self).is_ok()
    }

    async fn usable(&self) -> Result<(), HandoverError> {
        Owned::usable(self).await
    }

    async fn persist(&self) -> Result<(), HandoverError> {
        self.publish().await.map(|_| ())
    }

    async fn lost(&self) -> HandoverError {
        self.fenced().await
    }

    fn token(&self) -> Token {
        Token::from_u64(self.epoch())
    }
}
