//! The options of a source.

use std::time::Duration;

/// Options of a [`JetStream`](crate::JetStream).
///
/// ```
/// use hapax_nats::JetStreamOptions;
/// use std::time::Duration;
///
/// let options = JetStreamOptions::new("dead.billing").ack_pending_min(2 * 64).outage(Duration::from_secs(300));
/// ```
#[derive(Clone, Debug)]
pub struct JetStreamOptions {
    pub(crate) dead_letters: String,
    pub(crate) ack_pending_min: usize,
    pub(crate) outage: Duration,
}

impl JetStreamOptions {
    /// Creates the options of a source that puts messages aside under this subject. A stream must
    /// have it, and not the consumer itself.
    pub fn new(dead_letters: impl Into<String>) -> Self {
        JetStreamOptions { dead_letters: dead_letters.into(), ack_pending_min: 1, outage: Duration::from_secs(60) }
    }

    /// Sets the smallest `max_ack_pending` of the consumer that is accepted: messages that are held
    /// by all processes together, and those that wait to be tried again, since the server delivers
    /// no more than that. A good number is the processes times
    /// [`max_unacknowledged`](hapax_stream::ConsumerBuilder::max_unacknowledged). Default: 1.
    pub fn ack_pending_min(self, messages: usize) -> Self {
        JetStreamOptions { ack_pending_min: messages, ..self }
    }

    /// Sets the time for which a call is tried again that fails because the server or the
    /// connection is away; then the run ends with an error. Default: a minute.
    pub fn outage(self, limit: Duration) -> Self {
        JetStreamOptions { outage: limit, ..self }
    }
}
