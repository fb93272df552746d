//! The checks of a consumer's configuration.

use crate::{JetStreamOptions, NatsError};
use async_nats::jetstream::consumer::{AckPolicy, Config};
use hapax_store::backend::option;
use std::fmt::Debug;
use std::time::Duration;

/// The shortest time for which the server must leave a message alone.
const ACK_WAIT_MIN: Duration = Duration::from_secs(1);

fn check(is_valid: bool, option: &str, expected: &str, got: &dyn Debug) -> Result<(), NatsError> {
    option::check("nats", is_valid, option, got, expected).map_err(NatsError::Misconfigured)
}

/// Checks the consumer's configuration. Returns the shortest time for which the server leaves a
/// message alone.
pub(crate) fn consumer(config: &Config, options: &JetStreamOptions) -> Result<Duration, NatsError> {
    let expected = "a name: the server forgets what a consumer without one had not acknowledged";
    check(config.durable_name.is_some(), "durable_name", expected, &config.durable_name)?;
    let expected = "Explicit: each message is acknowledged by itself when it is done";
    check(config.ack_policy == AckPolicy::Explicit, "ack_policy", expected, &config.ack_policy)?;
    let expected = "-1 (no limit): the server gives a message up in silence after this many deliveries; \
                    `max_attempts` of the consumer of hapax limits the attempts";
    check(config.max_deliver <= 0, "max_deliver", expected, &config.max_deliver)?;
    check(!config.headers_only, "headers_only", "false: handlers and dead letters need the payload", &true)?;
    let least = i64::try_from(options.ack_pending_min.max(1)).unwrap_or(i64::MAX);
    let expected = format!("-1 (no limit), or at least {least}, as `ack_pending_min` says");
    // (The server writes its default, a thousand, for 0.)
    let is_enough = config.max_ack_pending < 0 || config.max_ack_pending >= least;
    check(is_enough, "max_ack_pending", &expected, &config.max_ack_pending)?;
    // Each further delivery of a message waits for the next time of `backoff`, in place of
    // `ack_wait`.
    let shortest = config.backoff.iter().copied().min();
    let (option, wait) = match shortest {
        Some(shortest) if shortest < config.ack_wait => ("backoff", shortest),
        _ => ("ack_wait", config.ack_wait),
    };
    let expected = format!("at least {ACK_WAIT_MIN:?}: the server hears of a message three times in it");
    check(wait >= ACK_WAIT_MIN, option, &expected, &wait).map(|()| wait)
}

/// Checks that the subject for dead letters is stored by a stream, and not delivered to the
/// consumer itself. `stored_by` is the stream that has the subject.
pub(crate) fn dead_letters(
    subject: &str,
    stored_by: Option<&str>,
    stream: &str,
    config: &Config,
) -> Result<(), NatsError> {
    let check = |is_valid, expected| check(is_valid, "dead_letters", expected, &subject);
    check(!subject.contains(['*', '>']) && !subject.is_empty(), "a subject without wildcards")?;
    check(stored_by.is_some(), "a subject that a stream stores")?;
    let comes_back = stored_by == Some(stream) && delivers(config, subject);
    check(!comes_back, "a subject that the consumer itself does not deliver")
}

/// Returns true if a consumer delivers the messages of its stream with this subject.
fn delivers(config: &Config, subject: &str) -> bool {
    let one = Some(&config.filter_subject).filter(|filter| !filter.is_empty());
    let mut filters = one.into_iter().chain(&config.filter_subjects).peekable();
    filters.peek().is_none() || filters.any(|filter| matches(filter, subject))
}

/// Returns true if a subject is one of those that a pattern stands for: `*` is one word, `>` is all
/// that follow.
fn matches(pattern: &str, subject: &str) -> bool {
    let mut words = subject.split('.');
    for expected in pattern.split('.') {
        let word = words.next();
        match (expected, word) {
            (">", Some(_)) => return true,
            (_, None) => return false,
            ("*", Some(_)) => {}
            (expected, Some(word)) if expected == word => {}
            _ => return false,
        }
    }
    words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Config {
        Config {
            durable_name: Some("billing".into()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_secs(30),
            max_deliver: -1,
            max_ack_pending: 1_000,
            ..Config::default()
        }
    }

    fn refused(config: &Config) -> String {
        match consumer(config, &JetStreamOptions::new("dead").ack_pending_min(100)) {
            Err(NatsError::Misconfigured(error)) => error.to_string().split('`').nth(1).unwrap().to_owned(),
            other => panic!("{config:?}: {other:?}"),
        }
    }

    #[test]
    fn a_configuration_that_loses_messages_is_refused() {
        assert_eq!(refused(&Config { durable_name: None, ..good() }), "durable_name");
        assert_eq!(refused(&Config { ack_policy: AckPolicy::None, ..good() }), "ack_policy");
        assert_eq!(refused(&Config { ack_policy: AckPolicy::All, ..good() }), "ack_policy");
        assert_eq!(refused(&Config { max_deliver: 5, ..good() }), "max_deliver");
        assert_eq!(refused(&Config { headers_only: true, ..good() }), "headers_only");
        assert_eq!(refused(&Config { max_ack_pending: 99, ..good() }), "max_ack_pending");
        assert_eq!(refused(&Config { ack_wait: Duration::from_millis(999), ..good() }), "ack_wait");
        let backoff = vec![Duration::from_secs(60), Duration::from_millis(500)];
        assert_eq!(refused(&Config { backoff, ..good() }), "backoff");
    }

    #[test]
    fn the_shortest_wait_of_an_accepted_configuration_is_returned() {
        let wait = |config| consumer(&config, &JetStreamOptions::new("dead").ack_pending_min(100)).unwrap();
        assert_eq!(wait(good()), Duration::from_secs(30));
        for max_ack_pending in [-1, 100] {
            assert_eq!(wait(Config { max_ack_pending, ..good() }), Duration::from_secs(30));
        }
        let backoff = vec![Duration::from_secs(60), Duration::from_secs(2)];
        assert_eq!(wait(Config { backoff, max_deliver: 0, ..good() }), Duration::from_secs(2));
        assert_eq!(wait(Config { backoff: vec![Duration::from_secs(60)], ..good() }), Duration::from_secs(30));
    }

    #[test]
    fn dead_letters_do_not_come_back() {
        let of = |filter: &str, filters: &[&str]| Config {
            filter_subject: filter.into(),
            filter_subjects: filters.iter().map(|filter| (*filter).to_owned()).collect(),
            ..good()
        };
        let check = |config: &Config, subject, stored_by| dead_letters(subject, stored_by, "ORDERS", config).is_ok();
        assert!(check(&of("", &[]), "dead.o", Some("DEAD")));
        assert!(!check(&of("", &[]), "dead.o", None), "no stream stores it");
        for config in [of("", &[]), of(">", &[]), of("dead.>", &[]), of("*.o", &[]), of("", &["new.*", "dead.o"])] {
            assert!(!check(&config, "dead.o", Some("ORDERS")), "{config:?}");
        }
        for config in [of("new.>", &[]), of("dead", &[]), of("dead.o.x", &[]), of("dead.o.>", &[]), of("", &["*"])] {
            assert!(check(&config, "dead.o", Some("ORDERS")), "{config:?}");
        }
        for subject in ["", "dead.*", "dead.>"] {
            assert!(!check(&of("new.>", &[]), subject, Some("DEAD")), "{subject:?}");
        }
    }
}
