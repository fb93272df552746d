//! The argument of a handler.

use hapax::Token;
use hapax_message::Described;
use hapax_store::Before;
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A message to be handled, with the token and the attempt of its handling. It derefs to the
/// message.
pub struct Delivery<M> {
    pub(crate) message: Arc<M>,
    pub(crate) token: Token,
    pub(crate) before: Option<Before>,
    pub(crate) attempt: u32,
    pub(crate) is_last: bool,
}

impl<M> Delivery<M> {
    /// Returns the message.
    pub fn message(&self) -> &Arc<M> {
        &self.message
    }

    /// Returns the fencing token of the claim: use it to fence the handler's own writes, if its
    /// effect must not happen after that of a later holder. Zero if the claim is not verified, or
    /// the message has no id.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the first claim of this message whose lease has expired, if none was completed
    /// since: its handler may have had its effect, and its process died before it said so. See
    /// [`TieredClaim::before`](hapax_store::TieredClaim::before), and
    /// [`on_takeover`](crate::ConsumerBuilder::on_takeover) for what a consumer does about it.
    pub fn before(&self) -> Option<&Before> {
        self.before.as_ref()
    }

    /// Returns the number of this attempt, from one: one more than the number of earlier attempts
    /// that are known to have begun.
    ///
    /// Attempts are counted, and deliveries never: a delivery that found the id in progress, or
    /// waited here until the broker sent it again, was no attempt. Where the broker [counts
    /// deliveries](crate::Source::deliveries), the store counts for all instances: from the second
    /// delivery on, an attempt is counted before it begins, so one that kills its process is
    /// counted. A first delivery costs no call, so it is attempt one, and is counted when it fails.
    /// With other brokers this run counts the failures.
    ///
    /// An attempt that was stopped, by a shutdown or a revocation, is taken back, if the store can
    /// be reached. One whose lease was lost, or whose run was dropped, counts: it cannot be told
    /// from one that has killed its process.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns true if the message is put aside should this attempt fail: it is the last one of
    /// [`max_attempts`](crate::ConsumerBuilder::max_attempts).
    ///
    /// A first delivery whose id other messages have used up attempts of is put aside as well,
    /// though this was not known when it began.
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

/// A delivery is described as its message is.
impl<M: Described> Described for Delivery<M> {
    fn header(&self, name: &str) -> Option<&str> {
        self.message.header(name)
    }

    fn payload(&self) -> &[u8] {
        self.message.payload()
    }

    fn id(&self) -> Option<Cow<'_, [u8]>> {
        self.message.id()
    }

    fn kind(&self) -> Option<&str> {
        self.message.kind()
    }

    fn source(&self) -> Option<&str> {
        self.message.source()
    }

    fn subject(&self) -> Option<&str> {
        self.message.subject()
    }

    fn key(&self) -> Option<&[u8]> {
        self.message.key()
    }
}
