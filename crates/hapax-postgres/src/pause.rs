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
pub(super) enum Room {
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
    Usual,
    Probe,
}

/// The end of a publication, as far as it says something about the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Success,
    /// The failure of a message, or of a key.
    Failure(u64),
    /// No information: the message cannot be published, whatever the broker does.
    Nothing,
}

/// A change that a sign has caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Paused,
    Resumed,
}

#[derive(Debug)]
pub(super) enum Pause {
    /// Publishing, with the messages or keys that have failed since something last succeeded.
    Open { failing: HashSet<u64> },
    /// Paused until then, after this many pauses in a row.
    Waiting { until: Instant, pauses: u32 },
    /// Probing with one message in flight, besides those from before the pause. If nobody ever
    /// reports how it ended, another message probes.
    Probing { until: Instant, pauses: u32 },
}

impl Pause {
    pub(super) fn new() -> Self {
        Pause::Open { failing: HashSet::new() }
    }

    pub(super) fn room(&self, now: Instant) -> Room {
        match self {
            Pause::Open { .. } => Room::All,
            Pause::Waiting { until, .. } | Pause::Probing { until, .. } if *until <= now => Room::Probe,
            Pause::Waiting { until, .. } => Room::None { until: *until },
            Pause::Probing { until, .. } => Room::None { until: *until },
        }
    }

    /// Asks to publish a message that was claimed, and that takes at most `longest`. `None`: it is
    /// given back.
    pub(super) fn begin(&mut self, longest: Duration, now: Instant) -> Option<Ticket> {
        match (self.room(now), &*self) {
            (Room::All, _) => Some(Ticket::Usual),
            (Room::Probe, Pause::Waiting { pauses, .. } | Pause::Probing { pauses, .. }) => {
                *self = Pause::Probing { until: now + 2 * longest, pauses: *pauses };
                Some(Ticket::Probe)
            }
            _ => None,
        }
    }

    /// Records how a publication that had begun ended.
    pub(super) fn ended(
        &mut self,
        ticket: Ticket,
        sign: Sign,
        now: Instant,
        random: impl FnOnce() -> u64,
    ) -> Option<Change> {
        match (&mut *self, sign) {
            (Pause::Open { failing }, Sign::Success) => {
                failing.clear();
                None
            }
            // A success of a publication from before the pause counts, too: the broker is there.
            (_, Sign::Success) => {
                *self = Pause::new();
                Some(Change::Resumed)
            }
            (Pause::Open { failing }, Sign::Failure(what)) => {
                failing.insert(what);
                let is_away = failing.len() >= FAILURES;
                if is_away {
                    *self = waiting(1, now, random());
                }
                is_away.then_some(Change::Paused)
            }
            (Pause::Probing { pauses, .. }, Sign::Failure(_)) if ticket == Ticket::Probe => {
                *self = waiting(pauses.saturating_add(1), now, random());
                None
            }
            // The next message is a better probe.
            (Pause::Probing { pauses, .. }, Sign::Nothing) if ticket == Ticket::Probe => {
                *self = Pause::Waiting { until: now, pauses: *pauses };
                None
            }
            // A failure of a publication that began before the pause is no news.
            (_, Sign::Failure(_) | Sign::Nothing) => None,
        }
    }
}

fn waiting(pauses: u32, now: Instant, random: u64) -> Pause {
    Pause::Waiting { until: now + WAITS.after(pauses, random), pauses }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    /// Publishes one message after the other, as long as that is allowed.
    fn publish(pause: &mut Pause, now: Instant, signs: impl IntoIterator<Item = Sign>) -> Vec<Option<Change>> {
        let mut publish = |sign| pause.begin(LONGEST, now).map(|ticket| pause.ended(ticket, sign, now, || 0));
        signs.into_iter().map_while(&mut publish).collect()
    }

    fn failures(n: u64) -> impl Iterator<Item = Sign> {
        (0..n).map(Sign::Failure)
    }

    fn until(pause: &Pause, now: Instant) -> Instant {
        match pause.room(now) {
            Room::None { until } => until,
            room => panic!("it waits, but has {room:?}"),
        }
    }

    #[test]
    fn different_messages_that_fail_in_a_row_pause_it() {
        let (mut pause, now) = (Pause::new(), Instant::now());
        let changes = publish(&mut pause, now, failures(100));
        assert_eq!(changes.len(), FAILURES, "nothing begins after that");
        assert_eq!(changes.last(), Some(&Some(Change::Paused)));
        assert!(pause.room(now) != Room::All && pause.begin(LONGEST, now).is_none());
        assert_eq!(until(&pause, now), now + WAITS.first);
    }

    #[test]
    fn messages_that_fail_beside_others_never_pause_it() {
        let (mut pause, now) = (Pause::new(), Instant::now());
        let failing = FAILURES as u64 - 1;
        for _ in 0..10 {
            let between = failures(failing).chain([Sign::Success]);
            assert!(publish(&mut pause, now, between).iter().all(Option::is_none));
        }
        // Nor does one that fails again and again, nor those that cannot be published at all.
        assert!(publish(&mut pause, now, [Sign::Failure(1); 100]).iter().all(Option::is_none));
        assert!(publish(&mut pause, now, [Sign::Nothing; 100]).iter().all(Option::is_none));
        assert_eq!(pause.room(now), Room::All);
    }

    #[test]
    fn one_message_probes_after_waits_that_double_up_to_a_limit() {
        let (mut pause, mut now) = (Pause::new(), Instant::now());
        publish(&mut pause, now, failures(100));
        let mut waits = vec![];
        for _ in 0..10 {
            let end = until(&pause, now);
            waits.push((end - now).as_millis());
            now = end;
            assert_eq!(pause.room(now), Room::Probe);
            assert_eq!(pause.begin(LONGEST, now), Some(Ticket::Probe));
            // One at a time.
            assert_eq!((pause.begin(LONGEST, now), pause.room(now)), (None, Room::None { until: now + 2 * LONGEST }));
            assert_eq!(pause.ended(Ticket::Probe, Sign::Failure(0), now, || 0), None);
        }
        assert_eq!(waits, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        // An outage of a day costs fewer than 3,000 attempts.
        let end = until(&pause, now);
        assert_eq!(pause.begin(LONGEST, end), Some(Ticket::Probe));
        assert_eq!(pause.ended(Ticket::Probe, Sign::Success, end, || 0), Some(Change::Resumed));
        assert_eq!(pause.room(end), Room::All);
        // The next outage begins with the shortest wait.
        publish(&mut pause, end, failures(100));
        assert_eq!(until(&pause, end), end + WAITS.first);
    }

    #[test]
    fn what_began_before_the_pause_does_not_lengthen_it_and_may_end_it() {
        let (mut pause, now) = (Pause::new(), Instant::now());
        publish(&mut pause, now, failures(100));
        let end = until(&pause, now);
        for sign in failures(100).chain([Sign::Nothing]) {
            assert_eq!(pause.ended(Ticket::Usual, sign, now, || 0), None);
        }
        assert_eq!(until(&pause, now), end);
        assert_eq!(pause.begin(LONGEST, end), Some(Ticket::Probe));
        assert_eq!(pause.ended(Ticket::Usual, Sign::Failure(1), end, || 0), None);
        assert_eq!(pause.room(end), Room::None { until: end + 2 * LONGEST });
        assert_eq!(pause.ended(Ticket::Usual, Sign::Success, end, || 0), Some(Change::Resumed));
        // The probe's own failure is just one of many then.
        assert_eq!(pause.ended(Ticket::Probe, Sign::Failure(1), end, || 0), None);
        assert_eq!(pause.room(end), Room::All);
    }

    #[test]
    fn a_probe_of_which_nobody_hears_again_is_followed_by_another() {
        let (mut pause, now) = (Pause::new(), Instant::now());
        publish(&mut pause, now, failures(100));
        let end = until(&pause, now);
        assert_eq!(pause.begin(LONGEST, end), Some(Ticket::Probe));
        assert_eq!(pause.begin(LONGEST, end + LONGEST), None);
        assert_eq!(pause.begin(LONGEST, end + 2 * LONGEST), Some(Ticket::Probe));
    }

    #[test]
    fn a_probe_that_cannot_be_published_at_all_is_followed_by_another_at_once() {
        let (mut pause, now) = (Pause::new(), Instant::now());
        publish(&mut pause, now, failures(100));
        let end = until(&pause, now);
        assert_eq!(pause.begin(LONGEST, end), Some(Ticket::Probe));
        assert_eq!(pause.ended(Ticket::Probe, Sign::Nothing, end, || 0), None);
        assert_eq!(pause.room(end), Room::Probe);
    }
}
