//! The time for which a message is hidden, and the answers for parts of a batch.

use crate::error::is_throttling;
use crate::options::VISIBILITY_MAX;
use aws_sdk_sqs::types::BatchResultErrorEntry;
use std::time::Duration;

/// The time by which a request may arrive later than it was made.
const MARGIN: Duration = Duration::from_secs(10);

/// Returns the seconds for which a message can be hidden from now on that was delivered this long
/// ago: as wanted, and no longer than 12 hours after its delivery.
pub(crate) fn seconds(wanted: Duration, age: Duration) -> i32 {
    let left = VISIBILITY_MAX.saturating_sub(MARGIN).saturating_sub(age);
    let whole = wanted.as_secs().saturating_add(u64::from(wanted.subsec_nanos() > 0));
    i32::try_from(whole.min(left.as_secs())).unwrap_or(i32::MAX)
}

/// The meaning of an entry of a batch that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The delivery is over: the message was deleted, is visible, or another consumer has it. If it
    /// was to be deleted, it comes again.
    Over,
    /// SQS could not do it now.
    Transient,
    /// SQS will not do it.
    Refused,
}

pub(crate) fn failure(entry: &BatchResultErrorEntry) -> Failure {
    let (code, message) = (entry.code(), entry.message().unwrap_or_default());
    let is_gone = ["expired", "does not exist"].iter().any(|why| message.contains(why));
    let is_over = code.ends_with("ReceiptHandleIsInvalid")
        || code.ends_with("MessageNotInflight")
        || code.ends_with("InvalidParameterValue") && is_gone
        || message.contains("Total VisibilityTimeout");
    if is_over {
        Failure::Over
    } else if !entry.sender_fault() || is_throttling(code) {
        Failure::Transient
    } else {
        Failure::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_hidden_for_12_hours_at_most() {
        let seconds = |wanted: u64, age: u64| seconds(Duration::from_millis(wanted), Duration::from_secs(age));
        assert_eq!([seconds(60_000, 0), seconds(60_000, 3_600), seconds(1, 0), seconds(0, 0)], [60, 60, 1, 0]);
        assert_eq!([seconds(60_000, 43_129), seconds(60_000, 43_131), seconds(60_000, 43_190)], [60, 59, 0]);
        assert_eq!([seconds(60_000, u64::MAX), seconds(u64::MAX, 0)], [0, 43_190]);
    }

    #[test]
    fn failed_entries_are_told_apart() {
        let of = |code: &str, message: &str, sender_fault| {
            let entry = BatchResultErrorEntry::builder().id("0").code(code).message(message).sender_fault(sender_fault);
            failure(&entry.build().unwrap())
        };
        assert_eq!(of("ReceiptHandleIsInvalid", "", true), Failure::Over);
        assert_eq!(of("AWS.SimpleQueueService.MessageNotInflight", "", true), Failure::Over);
        assert_eq!(of("InvalidParameterValue", "… Reason: The receipt handle has expired.", true), Failure::Over);
        let limit = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
        assert_eq!(of("InvalidParameterValue", limit, true), Failure::Over);
        // (SQS's words for a message that was deleted, or is visible again.)
        let gone = "Value AQEB for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not \
                    available for visibility timeout change.";
        assert_eq!(of("InvalidParameterValue", gone, true), Failure::Over);
        assert_eq!(of("InternalError", "", false), Failure::Transient);
        assert_eq!(of("RequestThrottled", "", true), Failure::Transient);
        assert_eq!(of("InvalidParameterValue", "Value -1 is invalid", true), Failure::Refused);
        assert_eq!(of("AccessDenied", "", true), Failure::Refused);
    }
}
