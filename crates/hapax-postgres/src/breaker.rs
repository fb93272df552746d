//! Pauses a relay whose broker is away: a state machine without a clock or a broker.
//!
//! If messages fail one after the other, and none succeeds in between, they are not at fault: their
//! broker is. The relay as a whole pauses then, and probes with one message at a time. (A circuit
//! breaker: Nygard, *Release It!*, 2007.)

use hapax_store::back_off::BackOff;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// The number of different messages or keys that fail in a row before a pause.
const FAILURES: usize = 8;
const WAITS: BackOff = BackOff { first: Duration::from_millis(200), max: Duration::from_secs(30) };

/// The share that may be published now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// All messages that there is room for.
    All,
    /// One message, to see what comes of it.
    Probe,
    /// No message until then, or until a probe has ended.
    None { until: Instant },
}

/// The kind of a publication that may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ticket {
    Normal,
    Probe,
}

/// The end of a publication, as far as it says something about the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Success,
    /// The failure of a message, or of a key.
    Failure(u64),
    /// No information: the message cannot be published, whatever the broker does.
    Nothing,
}

/// A change that a signal has caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Paused,
    Resumed,
}

#[derive(Debug)]
pub(super) enum CircuitBreaker {
    /// Publishing, with the messages or keys that have failed since something last succeeded.
    Closed { failing: HashSet<u64> },
    /// Paused until then, after this many pauses in a row.
    Open { until: Instant, pauses: u32 },
    /// Probing with one message in flight, besides those from before the pause. If nobody ever
    /// reports how it ended, another message probes.
    HalfOpen { until: Instant, pauses: u32 },
}

impl CircuitBreaker {
    pub(super) fn new() -> Self {
        CircuitBreaker::Closed { failing: HashSet::new() }
    }

    pub(super) fn admission(&self, now: Instant) -> Admission {
        match self {
            CircuitBreaker::Closed { .. } => Admission::All,
            CircuitBreaker::Open { until, .. } | CircuitBreaker::HalfOpen { until, .. } if *until <= now => {
                Admission::Probe
            }
            CircuitBreaker::Open { until, .. } => Admission::None { until: *until },
            CircuitBreaker::HalfOpen { until, .. } => Admission::None { until: *until },
        }
    }

    /// Asks to publish a message that was claimed, and that takes at most `longest`. `None`: it is
    /// given back.
    pub(super) fn begin(&mut self, longest: Duration, now: Instant) -> Option<Ticket> {
        match (self.admission(now), &*self) {
            (Admission::All, _) => Some(Ticket::Normal),
            (Admission::Probe, CircuitBreaker::Open { pauses, .. } | CircuitBreaker::HalfOpen { pauses, .. }) => {
                *self = CircuitBreaker::HalfOpen { until: now + 2 * longest, pauses: *pauses };
                Some(Ticket::Probe)
            }
            _ => None,
        }
    }

    /// Records how a publication that had begun ended.
    pub(super) fn ended(
        &mut self,
        ticket: Ticket,
        signal: Signal,
        now: Instant,
        random: impl FnOnce() -> u64,
    ) -> Option<Change> {
        match (&mut *self, signal) {
            (CircuitBreaker::Closed { failing }, Signal::Success) => {
                failing.clear();
                None
            }
            // A success of a publication from before the pause counts, too: the broker is there.
            (_, Signal::Success) => {
                *self = CircuitBreaker::new();
                Some(Change::Resumed)
            }
            (CircuitBreaker::Closed { failing }, Signal::Failure(what)) => {
                failing.insert(what);
                let is_away = failing.len() >= FAILURES;
                if is_away {
                    *self = open(1, now, random());
                }
                is_away.then_some(Change::Paused)
            }
            (CircuitBreaker::HalfOpen { pauses, .. }, Signal::Failure(_)) if ticket == Ticket::Probe => {
                *self = open(pauses.saturating_add(1), now, random());
                None
            }
            // The next message is a better probe.
            (CircuitBreaker::HalfOpen { pauses, .. }, Signal::Nothing) if ticket == Ticket::Probe => {
                *self = CircuitBreaker::Open { until: now, pauses: *pauses };
                None
            }
            // A failure of a publication that began before the pause is no news.
            (_, Signal::Failure(_) | Signal::Nothing) => None,
        }
    }
}

fn open(pauses: u32, now: Instant, random: u64) -> CircuitBreaker {
    CircuitBreaker::Open { until: now + WAITS.after(pauses, random), pauses }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    /// Publishes one message after the other, as long as that is allowed.
    fn publish(
        breaker: &mut CircuitBreaker,
        now: Instant,
        signals: impl IntoIterator<Item = Signal>,
    ) -> Vec<Option<Change>> {
        let mut publish = |signal| breaker.begin(LONGEST, now).map(|ticket| breaker.ended(ticket, signal, now, || 0));
        signals.into_iter().map_while(&mut publish).collect()
    }

    fn failures(n: u64) -> impl Iterator<Item = Signal> {
        (0..n).map(Signal::Failure)
    }

    fn until(breaker: &CircuitBreaker, now: Instant) -> Instant {
        match breaker.admission(now) {
            Admission::None { until } => until,
            other => panic!("it waits, but says {other:?}"),
        }
    }

    #[test]
    fn different_messages_that_fail_in_a_row_pause_it() {
        let (mut breaker, now) = (CircuitBreaker::new(), Instant::now());
        let changes = publish(&mut breaker, now, failures(100));
        assert_eq!(changes.len(), FAILURES, "nothing begins after that");
        assert_eq!(changes.last(), Some(&Some(Change::Paused)));
        assert!(breaker.admission(now) != Admission::All && breaker.begin(LONGEST, now).is_none());
        assert_eq!(until(&breaker, now), now + WAITS.first);
    }

    #[test]
    fn messages_that_fail_beside_others_never_pause_it() {
        let (mut breaker, now) = (CircuitBreaker::new(), Instant::now());
        let failing = FAILURES as u64 - 1;
        for _ in 0..10 {
            let between = failures(failing).chain([Signal::Success]);
            assert!(publish(&mut breaker, now, between).iter().all(Option::is_none));
        }
        // Nor does one that fails again and again, nor those that cannot be published at all.
        assert!(publish(&mut breaker, now, [Signal::Failure(1); 100]).iter().all(Option::is_none));
        assert!(publish(&mut breaker, now, [Signal::Nothing; 100]).iter().all(Option::is_none));
        assert_eq!(breaker.admission(now), Admission::All);
    }

    #[test]
    fn one_message_probes_after_waits_that_double_up_to_a_limit() {
        let (mut breaker, mut now) = (CircuitBreaker::new(), Instant::now());
        publish(&mut breaker, now, failures(100));
        let mut waits = vec![];
        for _ in 0..10 {
            let end = until(&breaker, now);
            waits.push((end - now).as_millis());
            now = end;
            assert_eq!(breaker.admission(now), Admission::Probe);
            assert_eq!(breaker.begin(LONGEST, now), Some(Ticket::Probe));
            // One at a time.
            assert_eq!(
                (breaker.begin(LONGEST, now), breaker.admission(now)),
                (None, Admission::None { until: now + 2 * LONGEST })
            );
            assert_eq!(breaker.ended(Ticket::Probe, Signal::Failure(0), now, || 0), None);
        }
        assert_eq!(waits, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        // An outage of a day costs fewer than 3,000 attempts.
        let end = until(&breaker, now);
        assert_eq!(breaker.begin(LONGEST, end), Some(Ticket::Probe));
        assert_eq!(breaker.ended(Ticket::Probe, Signal::Success, end, || 0), Some(Change::Resumed));
        assert_eq!(breaker.admission(end), Admission::All);
        // The next outage begins with the shortest wait.
        publish(&mut breaker, end, failures(100));
        assert_eq!(until(&breaker, end), end + WAITS.first);
    }

    #[test]
    fn what_began_before_the_pause_does_not_lengthen_it_and_may_end_it() {
        let (mut breaker, now) = (CircuitBreaker::new(), Instant::now());
        publish(&mut breaker, now, failures(100));
        let end = until(&breaker, now);
        for signal in failures(100).chain([Signal::Nothing]) {
            assert_eq!(breaker.ended(Ticket::Normal, signal, now, || 0), None);
        }
        assert_eq!(until(&breaker, now), end);
        assert_eq!(breaker.begin(LONGEST, end), Some(Ticket::Probe));
        assert_eq!(breaker.ended(Ticket::Normal, Signal::Failure(1), end, || 0), None);
        assert_eq!(breaker.admission(end), Admission::None { until: end + 2 * LONGEST });
        assert_eq!(breaker.ended(Ticket::Normal, Signal::Success, end, || 0), Some(Change::Resumed));
        // The probe's own failure is just one of many then.
        assert_eq!(breaker.ended(Ticket::Probe, Signal::Failure(1), end, || 0), None);
        assert_eq!(breaker.admission(end), Admission::All);
    }

    #[test]
    fn a_probe_of_which_nobody_hears_again_is_followed_by_another() {
        let (mut breaker, now) = (CircuitBreaker::new(), Instant::now());
        publish(&mut breaker, now, failures(100));
        let end = until(&breaker, now);
        assert_eq!(breaker.begin(LONGEST, end), Some(Ticket::Probe));
        assert_eq!(breaker.begin(LONGEST, end + LONGEST), None);
        assert_eq!(breaker.begin(LONGEST, end + 2 * LONGEST), Some(Ticket::Probe));
    }

    #[test]
    fn a_probe_that_cannot_be_published_at_all_is_followed_by_another_at_once() {
        let (mut breaker, now) = (CircuitBreaker::new(), Instant::now());
        publish(&mut breaker, now, failures(100));
        let end = until(&breaker, now);
        assert_eq!(breaker.begin(LONGEST, end), Some(Ticket::Probe));
        assert_eq!(breaker.ended(Ticket::Probe, Signal::Nothing, end, || 0), None);
        assert_eq!(breaker.admission(end), Admission::Probe);
    }
}
