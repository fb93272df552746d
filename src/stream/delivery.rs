//! What a handler gets.

use crate::Token;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

/// A message to be handled, and what the handler should know about that. It derefs to the message.
pub struct Delivery<M> {
    pub(super) message: Arc<M>,
    pub(super) token: Token,
    pub(super) attempt: u32,
    pub(super) is_last: bool,
}

impl<M> Delivery<M> {
    /// The message.
    pub fn message(&self) -> &Arc<M> {
        &self.message
    }

    /// The fencing token of the claim: what the handler's own writes are to be fenced with, if its effect must not happen after somebody else's.
    /// Zero if nobody has verified the claim, or the message has no id.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Which attempt this is, from one: the broker's count of deliveries if it has one, else failures here, and one.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether the message is put aside if this attempt fails.
    pub fn is_last_attempt(&self) -> bool {
        self.is_last
    }
}

impl<M> Deref for Delivery<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.message
    }
}

impl<M: fmt::Debug> fmt::Debug for Delivery<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("message", &self.message)
            .field("token", &self.token)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// A handler, whatever its type, and a future of one.
pub(super) type Handler<M> = Arc<dyn Fn(Delivery<M>) -> Handling + Send + Sync>;
pub(super) type Handling = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
