//! The options of a source.

use crate::SqsError;
use hapax_store::backend::option;
use std::fmt::Debug;
use std::time::Duration;

/// The longest time for which SQS hides a message, counted from its delivery.
pub(crate) const VISIBILITY_MAX: Duration = Duration::from_secs(12 * 3_600);
/// The longest time for which SQS waits for a message.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Options of an [`Sqs`](crate::Sqs).
///
/// ```
/// use hapax_sqs::SqsOptions;
/// use std::time::Duration;
///
/// let queue = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
/// let dead_letters = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-dead";
/// let options = SqsOptions::new(queue, dead_letters).visibility(Duration::from_secs(30));
/// ```
#[derive(Clone, Debug)]
pub struct SqsOptions {
    pub(crate) queue_url: String,
    pub(crate) dead_letter_queue_url: String,
    pub(crate) visibility: Duration,
    pub(crate) wait: Duration,
    pub(crate) outage: Duration,
}

impl SqsOptions {
    /// Creates the options of a source of a queue that puts messages aside into another one, each
    /// by its URL. Both must exist.
    pub fn new(queue_url: impl Into<String>, dead_letter_queue_url: impl Into<String>) -> Self {
        SqsOptions {
            queue_url: queue_url.into(),
            dead_letter_queue_url: dead_letter_queue_url.into(),
            visibility: Duration::from_secs(60),
            wait: WAIT_MAX,
            outage: Duration::from_secs(60),
        }
    }

    /// Sets the time for which a received message is hidden from other consumers: whole seconds, 2
    /// to 12 hours. Handling may take longer, since it is prolonged three times in it. It is the
    /// time after which messages of a process that died are delivered again. Default: a minute.
    pub fn visibility(self, time: Duration) -> Self {
        SqsOptions { visibility: time, ..self }
    }

    /// Sets the time for which SQS waits for messages before it answers that there is none (long
    /// polling): whole seconds, up to 20. A shorter one costs more requests, and without any, SQS
    /// asks only some of its servers. Default: 20 seconds.
    pub fn wait(self, time: Duration) -> Self {
        SqsOptions { wait: time, ..self }
    }

    /// Sets the time for which a call is tried again that fails because SQS is away or throttles,
    /// beside the client's own tries; then the run ends with an error. Default: a minute.
    pub fn outage(self, limit: Duration) -> Self {
        SqsOptions { outage: limit, ..self }
    }

    pub(crate) fn validate(&self) -> Result<(), SqsError> {
        let check = |is_valid: bool, option: &str, expected: &str, got: &dyn Debug| {
            option::check("sqs", is_valid, option, got, expected).map_err(SqsError::Misconfigured)
        };
        for (option, url) in [("queue_url", &self.queue_url), ("dead_letter_queue_url", &self.dead_letter_queue_url)] {
            check(!url.trim().is_empty(), option, "the URL of a queue", url)?;
        }
        let differ = self.queue_url != self.dead_letter_queue_url;
        let expected = "another queue than `queue_url`: what fails would come back";
        check(differ, "dead_letter_queue_url", expected, &self.dead_letter_queue_url)?;
        let is_whole = |time: Duration| time.subsec_nanos() == 0;
        let is_valid =
            is_whole(self.visibility) && (Duration::from_secs(2)..=VISIBILITY_MAX).contains(&self.visibility);
        check(is_valid, "visibility", "whole seconds, 2 to 43,200", &self.visibility)?;
        check(is_whole(self.wait) && self.wait <= WAIT_MAX, "wait", "whole seconds, up to 20", &self.wait)
    }

    /// Returns true if messages are put aside into a FIFO queue: SQS insists on the suffix.
    pub(crate) fn is_dead_letter_queue_fifo(&self) -> bool {
        self.dead_letter_queue_url.ends_with(".fifo")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_are_named() {
        let good = || SqsOptions::new("https://sqs/1/orders", "https://sqs/1/dead");
        let refused = |options: SqsOptions| match options.validate() {
            Err(SqsError::Misconfigured(error)) => error.to_string().split('`').nth(1).unwrap().to_owned(),
            other => panic!("{options:?}: {other:?}"),
        };
        assert_eq!(refused(SqsOptions::new(" ", "https://sqs/1/dead")), "queue_url");
        assert_eq!(refused(SqsOptions::new("https://sqs/1/orders", "")), "dead_letter_queue_url");
        assert_eq!(refused(SqsOptions::new("https://sqs/1/o", "https://sqs/1/o")), "dead_letter_queue_url");
        for millis in [0, 1_000, 2_500, 43_201_000] {
            assert_eq!(refused(good().visibility(Duration::from_millis(millis))), "visibility", "{millis} ms");
        }
        for millis in [500, 21_000] {
            assert_eq!(refused(good().wait(Duration::from_millis(millis))), "wait", "{millis} ms");
        }
        for (visibility, wait) in [(2, 0), (43_200, 20)] {
            let options = good().visibility(Duration::from_secs(visibility)).wait(Duration::from_secs(wait));
            assert!(options.validate().is_ok(), "{options:?}");
        }
    }
}
