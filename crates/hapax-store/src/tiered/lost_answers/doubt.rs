//! Marks in doubt: marks for which it cannot be known yet whether their maker was told that the id
//! is fresh. Pure: time is an argument.
//!
//! The store has marked an id, and its answer was lost. The message comes again, to another
//! instance, which meets the mark. To take it for a duplicate would be to drop a message that was
//! never handled. The maker knows that it got no answer, and takes the mark back as soon as the
//! store answers (a task in the background). Until then, and for a limited time, other engines that
//! meet a young mark of another maker answer that the id is in progress, so that its message comes
//! again.

use crate::RecordKey;
use hapax::seam::random::mix;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The number of bits of an attempt's number by which its engine recognizes it.
const TAG_BITS: u32 = 20;
const TAG: u64 = (1 << TAG_BITS) - 1;

fn tag(number: u64, key: u64) -> u64 {
    mix(number ^ key) & TAG
}

/// Returns a number of 63 bits for an attempt, which an engine with the key [recognizes](is_own).
pub(crate) fn tagged(random: u64, key: u64) -> u64 {
    let number = random >> (1 + TAG_BITS);
    number << TAG_BITS | tag(number, key)
}

/// Returns true if the number was given under this key. One in a million of other engines' numbers
/// passes, at random: such a mark is believed at once.
pub(crate) fn is_own(attempt: u64, key: u64) -> bool {
    attempt & TAG == tag(attempt >> TAG_BITS, key)
}

/// Returns the time for which a mark remains in doubt, if it is, given that it was made for
/// `retention` and expires in `expires_in`.
///
/// The retention is the reader's own. A mark that is to last longer than that has an age below
/// zero: the store's clock was set back, and it is as young as can be. Or another instance has a
/// longer retention, whose marks would be in doubt for the difference: beyond an hour of it they
/// are believed.
pub(crate) fn left(grace: Duration, retention: Duration, expires_in: Duration) -> Option<Duration> {
    /// The most by which a clock is believed to have been set back.
    const SET_BACK_MAX: Duration = Duration::from_secs(3_600);
    if expires_in > retention.saturating_add(SET_BACK_MAX) {
        return None;
    }
    let age = retention.saturating_sub(expires_in);
    grace.checked_sub(age).filter(|left| !left.is_zero())
}

/// The times at which the store is asked to take a mark back, given that it has answered.
///
/// The answer "not there" is no end: a request that was given up may be on its way still, in the
/// buffers of a server that stood still, or in a network that sends again. Other engines doubt the
/// mark for a while after it is made, and it is to be gone before that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The time after which a request that was given up is not carried out any more.
    settled: Duration,
    /// The shortest and the longest pause between two requests.
    pauses: (Duration, Duration),
}

impl Pace {
    /// Returns the pace of an engine whose marks are doubted for this long, and whose calls take up
    /// to `patience` with their retries.
    pub(crate) fn new(in_doubt: Duration, patience: Duration) -> Self {
        let settled = in_doubt.max(patience);
        let pauses =
            if in_doubt.is_zero() { (settled, settled) } else { (in_doubt / 8, (in_doubt / 2).max(PAUSE_MIN)) };
        Pace { settled, pauses }
    }

    /// Returns the time of the next request after one that was sent at `asked_at` and answered, for
    /// a mark about which the store was silent until `silent`; `None` after the last one.
    fn next(self, silent: Instant, asked_at: Instant) -> Option<Instant> {
        let last = silent + self.settled;
        let (pause_min, pause_max) = self.pauses;
        // Pauses that double: most of what is late is late by little.
        let pause = asked_at.saturating_duration_since(silent).clamp(pause_min.min(pause_max), pause_max);
        (asked_at < last).then(|| last.min(asked_at + pause))
    }

    /// Returns the pause after a request that the store has not answered.
    pub(crate) fn after_failure(self, back_off: Duration) -> Duration {
        back_off.min((self.pauses.1 / 2).max(PAUSE_MIN))
    }
}

/// The shortest time between two requests about a mark that is doubted for a short time only.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// A mark that is to be taken back.
#[derive(Clone, Debug)]
struct Lost {
    key: RecordKey,
    /// The time until which the store was silent, as far as is known: at which the mark was given
    /// up, or a request to take it back.
    silent: Instant,
    /// The time at which it expires by itself.
    until: Instant,
    /// The time of the next request to the store.
    due: Instant,
    /// True if the store may have been asked to take it back: then its number is not used again,
    /// since that request may be carried out late.
    asked: bool,
    answered: bool,
}

/// Marks that no caller was told to be fresh, by attempt. Bounded: further marks are left in doubt
/// until their grace is over, and are then duplicates.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// In order, so that a simulation's seed determines one run.
    lost: BTreeMap<u64, Lost>,
}

impl Doubts {
    const MAX: usize = 65_536;

    /// Returns the number of marks that are to be taken back and that the store has not answered
    /// about.
    pub(crate) fn open(&self) -> usize {
        self.lost.values().filter(|lost| !lost.answered).count()
    }

    /// Adds a mark whose answer was lost, to be taken back when it is due.
    pub(crate) fn insert(&mut self, attempt: u64, key: RecordKey, now: Instant, due: Instant, retention: Duration) {
        // (An end beyond the clock's range stands for no end.)
        let until = now.checked_add(retention).unwrap_or_else(|| now + FOR_EVER);
        if self.lost.len() < Self::MAX || self.lost.contains_key(&attempt) {
            self.lost.insert(attempt, Lost { key, silent: now, until, due, asked: false, answered: false });
        }
    }

    /// Returns true if this mark is in doubt.
    pub(crate) fn contains(&self, attempt: u64) -> bool {
        self.lost.contains_key(&attempt)
    }

    /// Keeps a mark, because the same process asks for it again: it is no longer to be taken back.
    /// Returns false if that is too late, since the store was asked: then another number must be
    /// used.
    pub(crate) fn reclaim(&mut self, attempt: u64) -> bool {
        match self.lost.get(&attempt) {
            Some(lost) if lost.asked => false,
            _ => {
                self.lost.remove(&attempt);
                true
            }
        }
    }

    /// Notes that the store is being asked to take it back.
    pub(crate) fn asks(&mut self, attempt: u64) {
        if let Some(lost) = self.lost.get_mut(&attempt) {
            lost.asked = true;
        }
    }

    /// Returns up to `most` of the marks that are due. The store is asked about them now.
    pub(crate) fn take_due(&mut self, now: Instant, most: usize) -> Vec<(u64, RecordKey)> {
        let due = self.lost.iter_mut().filter(|(_, lost)| lost.due <= now).take(most);
        due.map(|(attempt, lost)| {
            lost.asked = true;
            (*attempt, lost.key.clone())
        })
        .collect()
    }

    /// Removes a mark: it was taken back, and no request that was given up can mark the id again.
    pub(crate) fn remove(&mut self, attempt: u64) {
        self.lost.remove(&attempt);
    }

    /// Notes the store's answer to a request that was sent at this time. The mark is finished,
    /// unless a request that was given up may still arrive: then the store is asked once more.
    pub(crate) fn answered(&mut self, attempt: u64, asked_at: Instant, pace: Pace) {
        if let Some(lost) = self.lost.get_mut(&attempt) {
            match pace.next(lost.silent, asked_at) {
                Some(next) => (lost.due, lost.answered) = (next, true),
                None => drop(self.lost.remove(&attempt)),
            }
        }
    }

    /// Notes that the store has not answered until now, and is asked again after a pause; or never,
    /// if the mark has expired.
    pub(crate) fn failed(&mut self, attempt: u64, now: Instant, pause: Duration) {
        if let Some(lost) = self.lost.get_mut(&attempt) {
            (lost.silent, lost.due) = (now, now + pause);
            if lost.until <= lost.due {
                self.lost.remove(&attempt);
            }
        }
    }

    /// Returns the time at which the next mark is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.lost.values().map(|lost| lost.due).min()
    }
}

const FOR_EVER: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;

    const SECOND: Duration = Duration::from_secs(1);

    fn key() -> RecordKey {
        RecordKey::new(&Scope::default(), "a")
    }

    #[test]
    fn an_engine_knows_its_own_numbers_and_hardly_any_other() {
        let numbers = (0..200_000).map(mix).map(|random| tagged(random, 17));
        let mut foreign = 0;
        for number in numbers {
            assert!(number < 1 << 63 && is_own(number, 17), "{number}");
            foreign += u32::from(is_own(number, 18));
        }
        assert!(foreign <= 5, "{foreign} of 200,000 are taken for another's: one in a million was expected");
    }

    #[test]
    fn a_mark_is_in_doubt_until_it_is_as_old_as_the_grace() {
        let left = |age| left(8 * SECOND, 100 * SECOND, 100 * SECOND - age);
        assert_eq!(left(Duration::ZERO), Some(8 * SECOND));
        assert_eq!(left(7 * SECOND), Some(SECOND));
        assert_eq!(left(8 * SECOND), None);
        assert_eq!(left(50 * SECOND), None);
    }

    #[test]
    fn no_doubt_lasts_longer_than_the_grace_whatever_the_store_says() {
        for retention in [Duration::ZERO, SECOND, 100 * SECOND, Duration::MAX] {
            for expires_in in [Duration::ZERO, SECOND, 100 * SECOND, 101 * SECOND, 102 * SECOND, Duration::MAX] {
                for grace in [Duration::ZERO, SECOND, Duration::MAX] {
                    let left = left(grace, retention, expires_in);
                    assert!(left.is_none_or(|left| left <= grace && !left.is_zero()));
                }
            }
        }
        // A store whose clock was set back, or that rounds up; and marks that are made for much
        // longer than this reader's.
        assert_eq!(left(8 * SECOND, 100 * SECOND, 101 * SECOND), Some(8 * SECOND));
        assert_eq!(left(8 * SECOND, 100 * SECOND, 3_700 * SECOND), Some(8 * SECOND));
        assert_eq!(left(8 * SECOND, 100 * SECOND, 3_701 * SECOND), None);
    }

    #[test]
    fn a_number_is_used_again_until_the_store_was_asked_to_take_its_mark_back() {
        let (mut doubts, now) = (Doubts::default(), Instant::now());
        doubts.insert(1, key(), now, now + SECOND, 100 * SECOND);
        doubts.insert(2, key(), now, now + SECOND, 100 * SECOND);
        assert!(doubts.take_due(now, 9).is_empty());
        assert!(doubts.reclaim(1) && !doubts.contains(1));
        assert_eq!(doubts.take_due(now + SECOND, 9).len(), 1);
        assert!(!doubts.reclaim(2) && doubts.contains(2), "it may be taken back at any time");
        assert!(doubts.reclaim(3), "nobody takes it back");
        doubts.insert(4, key(), now, now + SECOND, 100 * SECOND);
        doubts.asks(4);
        assert!(!doubts.reclaim(4));
    }

    /// Returns the times since the mark was given up at which the store is asked, which answers.
    fn asked(pace: Pace) -> Vec<Duration> {
        let (mut doubts, start, mut times) = (Doubts::default(), Instant::now(), vec![]);
        doubts.insert(1, key(), start, start + SECOND / 10, 100 * SECOND);
        while let Some(due) = doubts.next_due() {
            assert_eq!(doubts.take_due(due, 9).len(), 1);
            doubts.answered(1, due, pace);
            assert_eq!(doubts.open(), 0, "it was answered");
            times.push(due - start);
        }
        times
    }

    #[test]
    fn a_mark_is_taken_back_until_what_was_given_up_cannot_arrive_any_more() {
        let seconds = |times: Vec<Duration>| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
        assert_eq!(seconds(asked(Pace::new(8 * SECOND, 4 * SECOND))), [0.1, 1.1, 2.2, 4.4, 8.0]);
        // Nobody doubts it, or for a shorter time than a call may take.
        assert_eq!(seconds(asked(Pace::new(Duration::ZERO, 4 * SECOND))), [0.1, 4.0]);
        let often = asked(Pace::new(SECOND / 5, 4 * SECOND));
        assert!(often.windows(2).all(|two| two[1] - two[0] <= SECOND / 10) && often.last() == Some(&(4 * SECOND)));
        assert!(asked(Pace::new(Duration::from_nanos(1), SECOND)).len() <= 100);
    }

    #[test]
    fn what_was_given_up_may_arrive_as_long_as_the_store_is_silent() {
        let (mut doubts, start, pace) = (Doubts::default(), Instant::now(), Pace::new(8 * SECOND, 4 * SECOND));
        doubts.insert(1, key(), start, start, 100 * SECOND);
        doubts.failed(1, start + 20 * SECOND, SECOND);
        assert_eq!((doubts.next_due(), doubts.open()), (Some(start + 21 * SECOND), 1));
        doubts.answered(1, start + 21 * SECOND, pace);
        assert!(doubts.contains(1));
        doubts.answered(1, start + 28 * SECOND, pace);
        assert!(!doubts.contains(1));
        assert_eq!(pace.after_failure(SECOND), SECOND);
        assert_eq!(Pace::new(SECOND, SECOND).after_failure(SECOND), SECOND / 4);
    }

    #[test]
    fn they_are_bounded_in_number_and_in_time() {
        let (mut doubts, now) = (Doubts::default(), Instant::now());
        for attempt in 0..Doubts::MAX as u64 + 10 {
            doubts.insert(attempt, key(), now, now, 100 * SECOND);
        }
        assert_eq!(doubts.open(), Doubts::MAX);
        doubts.insert(0, key(), now, now + SECOND, Duration::MAX);
        doubts.insert(1, key(), now, now + SECOND, 100 * SECOND);
        for attempt in [0, 1] {
            doubts.failed(attempt, now + 98 * SECOND, SECOND);
            assert!(doubts.contains(attempt));
            doubts.failed(attempt, now + 98 * SECOND, 2 * SECOND);
        }
        assert!(doubts.contains(0) && !doubts.contains(1), "its mark has expired");
    }
}
