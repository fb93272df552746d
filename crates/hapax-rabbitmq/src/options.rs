//! The options of a source.

use crate::RabbitMqError;
use hapax_store::backend::option;
use std::fmt::Debug;
use std::time::Duration;

/// The longest name of a queue, in bytes.
const NAME_MAX: usize = 255;

/// Options of a [`RabbitMq`](crate::RabbitMq).
///
/// ```
/// use hapax_rabbitmq::RabbitMqOptions;
/// use std::time::Duration;
///
/// let options = RabbitMqOptions::new("orders", "orders-dead").prefetch(16).outage(Duration::from_secs(300));
/// ```
#[derive(Clone, Debug)]
pub struct RabbitMqOptions {
    pub(crate) queue: String,
    pub(crate) dead_letter_queue: String,
    pub(crate) prefetch: u16,
    pub(crate) outage: Duration,
}

impl RabbitMqOptions {
    /// Creates the options of a source of a queue that puts messages aside into another one. Both
    /// must exist.
    pub fn new(queue: impl Into<String>, dead_letter_queue: impl Into<String>) -> Self {
        RabbitMqOptions {
            queue: queue.into(),
            dead_letter_queue: dead_letter_queue.into(),
            prefetch: 128,
            outage: Duration::from_secs(60),
        }
    }

    /// Sets the number of messages that the broker sends ahead of their acknowledgement: those that
    /// are handled, those that wait for a handler, and those that wait to be tried again. As many
    /// as that failing at the same time stop the rest until it is time for the first. Twice the
    /// [handlers](hapax_stream::ConsumerBuilder::max_in_flight) keep them busy. Default: 128.
    pub fn prefetch(self, messages: u16) -> Self {
        RabbitMqOptions { prefetch: messages, ..self }
    }

    /// Sets the time for which a call is tried again that fails because the broker, the channel or
    /// a queue is away; then the run ends with an error. Default: a minute.
    pub fn outage(self, limit: Duration) -> Self {
        RabbitMqOptions { outage: limit, ..self }
    }

    pub(crate) fn validate(&self) -> Result<(), RabbitMqError> {
        let check = |is_valid: bool, option: &str, expected: &str, got: &dyn Debug| {
            option::check("rabbitmq", is_valid, option, got, expected).map_err(RabbitMqError::Misconfigured)
        };
        for (option, name) in [("queue", &self.queue), ("dead_letter_queue", &self.dead_letter_queue)] {
            let is_valid = (1..=NAME_MAX).contains(&name.len());
            check(is_valid, option, "a name of 1 to 255 bytes", name)?;
        }
        let differ = self.queue != self.dead_letter_queue;
        let expected = "another queue than `queue`: what fails would come back";
        check(differ, "dead_letter_queue", expected, &self.dead_letter_queue)?;
        check(self.prefetch > 0, "prefetch", "at least 1: none is no limit", &self.prefetch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_are_named() {
        let refused = |options: RabbitMqOptions| match options.validate() {
            Err(RabbitMqError::Misconfigured(error)) => error.to_string().split('`').nth(1).unwrap().to_owned(),
            other => panic!("{options:?}: {other:?}"),
        };
        assert_eq!(refused(RabbitMqOptions::new("", "dead")), "queue");
        assert_eq!(refused(RabbitMqOptions::new("o".repeat(256), "dead")), "queue");
        assert_eq!(refused(RabbitMqOptions::new("orders", "")), "dead_letter_queue");
        assert_eq!(refused(RabbitMqOptions::new("orders", "orders")), "dead_letter_queue");
        assert_eq!(refused(RabbitMqOptions::new("orders", "dead").prefetch(0)), "prefetch");
        assert!(RabbitMqOptions::new("o".repeat(255), "dead").prefetch(1).validate().is_ok());
    }
}
