//! The health of a member: the errors from which its client recovers, and the one that ends it.

use crate::error::KafkaSourceError;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The first error from which nobody recovers.
    failed: watch::Sender<Option<KafkaSourceError>>,
    recovered: AtomicU64,
}

impl Health {
    /// Notes that this member cannot go on.
    pub(crate) fn fail(&self, error: KafkaSourceError) {
        #[cfg(feature = "tracing")]
        tracing::error!("this member of a Kafka group cannot go on: {error}");
        self.failed.send_if_modified(|failed| {
            let is_first = failed.is_none();
            failed.get_or_insert(error);
            is_first
        });
    }

    /// Notes an error of the client.
    pub(crate) fn note(&self, error: KafkaError, is_fatal: bool) {
        match error.rdkafka_error_code() {
            _ if matches!(error, KafkaError::PartitionEOF(_)) => {}
            _ if is_fatal => self.fail(KafkaSourceError::when("receiving")(error)),
            Some(code) if is_final(code) => self.fail(KafkaSourceError::when("receiving")(error)),
            _ => {
                #[cfg(feature = "tracing")]
                tracing::warn!("the client of Kafka tries again: {error}");
                self.recovered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn recovered(&self) -> u64 {
        self.recovered.load(Ordering::Relaxed)
    }

    /// Returns an error if this member cannot go on.
    pub(crate) fn check(&self) -> Result<(), KafkaSourceError> {
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    /// Waits until this member cannot go on.
    pub(crate) async fn failed(&self) -> KafkaSourceError {
        let mut failed = self.failed.subscribe();
        match failed.wait_for(Option::is_some).await {
            Ok(failed) => failed.clone().unwrap_or(KafkaSourceError::Stopped),
            Err(_) => KafkaSourceError::Stopped, // (The sender is here.)
        }
    }
}

/// Returns true if the client tries for ever what can only fail, or has left messages out.
fn is_final(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::*;
    match code {
        // Somebody has to change a permission or a setting.
        Authentication | SaslAuthenticationFailed | UnsupportedSASLMechanism | IllegalSASLState => true,
        TopicAuthorizationFailed | GroupAuthorizationFailed | ClusterAuthorizationFailed => true,
        InvalidGroupId | InvalidTopic | InconsistentGroupProtocol | InvalidSessionTimeout => true,
        FencedInstanceId | GroupMaxSizeReached | UnsupportedVersion | UnsupportedFeature => true,
        // A partition is not read any more, or some of its messages were left out.
        AutoOffsetReset
        | BadMessage
        | BadCompression
        | NotImplemented
        | InvalidMessage
        | UnsupportedCompressionType => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_ends_the_member_if_waiting_does_not_help() {
        let note = |code, is_fatal| {
            let health = Health::default();
            health.note(KafkaError::MessageConsumption(code), is_fatal);
            (health.check().is_err(), health.recovered())
        };
        for code in [RDKafkaErrorCode::BrokerTransportFailure, RDKafkaErrorCode::UnknownTopicOrPartition] {
            assert_eq!(note(code, false), (false, 1), "{code}");
            assert_eq!(note(code, true), (true, 0), "{code}");
        }
        for code in [RDKafkaErrorCode::TopicAuthorizationFailed, RDKafkaErrorCode::NotImplemented] {
            assert_eq!(note(code, false), (true, 0), "{code}");
        }
        let health = Health::default();
        health.note(KafkaError::PartitionEOF(3), false);
        assert_eq!((health.check().is_err(), health.recovered()), (false, 0), "the end of a partition is none");
    }

    #[test]
    fn the_first_error_is_reported() {
        let health = Health::default();
        health.fail(KafkaSourceError::NoRetry);
        health.fail(KafkaSourceError::Stopped);
        assert!(matches!(health.check(), Err(KafkaSourceError::NoRetry)));
    }
}
