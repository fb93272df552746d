//! The times at which a relay or a worker looks for messages: a state machine without a clock.
//!
//! `NOTIFY` makes the server commit one transaction after the other, so a transaction that enqueues
//! notifies only if no relay or worker is awake. One that has found something announces that it is
//! awake, and looks every few milliseconds until the announcement is over. Then it sleeps until it
//! is notified, or until its slow poll. Behind a pooler nothing is notified: the slow poll is all.

use hapax_store::back_off::{BackOff, jittered};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The waits between looks while awake: short enough for the transactions that do not notify
/// because of the announcement.
const AWAKE_WAITS: BackOff = BackOff { first: Duration::from_millis(5), max: Duration::from_millis(50) };
/// The time for which an announcement to the enqueuing transactions holds.
const AWAKE_FOR: Duration = Duration::from_secs(2);
/// The least time between two announcements.
const SAY_EVERY: Duration = Duration::from_secs(1);
/// The time within which a transaction commits that enqueued just before an announcement was over,
/// and did not notify.
const GRACE: Duration = Duration::from_millis(200);

/// The time at which to look next.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    slow: Duration,
    /// Looks in a row that found nothing.
    empty: u32,
    look_at: Instant,
    awake_until: Instant,
    say_at: Instant,
}

impl Pace {
    /// Creates a pace that looks at once, and then, as long as it sleeps, after `slow` (shortened
    /// at random by up to a half).
    pub(crate) fn new(slow: Duration, now: Instant) -> Self {
        Pace { slow, empty: 0, look_at: now, awake_until: now, say_at: now }
    }

    /// Records that a look found something. Returns how long an announcement to the enqueuing
    /// transactions should hold, if one is due: call [`said`](Self::said) once it was made.
    pub(crate) fn found(&mut self, now: Instant) -> Option<Duration> {
        (self.empty, self.look_at) = (0, now);
        self.awake_until = self.awake_until.max(now + GRACE);
        let is_due = now >= self.say_at;
        if is_due {
            self.say_at = now + SAY_EVERY;
        }
        is_due.then_some(AWAKE_FOR)
    }

    /// Records that the announcement was made, not later than now. It is kept for longer than it
    /// holds by the server's clock, since the server read its clock before.
    pub(crate) fn said(&mut self, now: Instant) {
        self.awake_until = self.awake_until.max(now + AWAKE_FOR + GRACE);
    }

    /// Records that a look found nothing.
    pub(crate) fn found_nothing(&mut self, now: Instant, random: u64) {
        self.empty = self.empty.saturating_add(1);
        let wait = if self.hears(now) { self.slow } else { AWAKE_WAITS.longest(self.empty).min(self.slow) };
        self.look_at = now + jittered(wait, random);
    }

    /// Records a notification: the next look is at once, but not all the time, however often it was
    /// notified for nothing.
    pub(crate) fn woken(&mut self, now: Instant) {
        (self.empty, self.look_at, self.awake_until) = (0, now, self.awake_until.max(now + GRACE));
    }

    /// Returns the time at which to look next.
    pub(crate) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// Returns true if a notification ends the wait. While awake it looks soon anyway, however many
    /// notifications it gets.
    pub(crate) fn hears(&self, now: Instant) -> bool {
        now >= self.awake_until
    }

    /// Waits until it is time to look. Dropping this future loses nothing.
    pub(crate) async fn is_due(&mut self, notified: &Notify) {
        let hears = self.hears(Instant::now());
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(self.look_at) => {}
            () = notified.notified(), if hears => self.woken(Instant::now()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_secs(30);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns the longest waits of this many looks that find nothing.
    fn waits(pace: &mut Pace, looks: usize) -> Vec<Duration> {
        let wait = |_| {
            let now = pace.look_at();
            pace.found_nothing(now, 0);
            pace.look_at() - now
        };
        (0..looks).map(wait).collect()
    }

    #[test]
    fn one_that_sleeps_looks_slowly_and_hears() {
        let now = Instant::now();
        let mut pace = Pace::new(SLOW, now);
        assert_eq!(pace.look_at(), now);
        assert_eq!(waits(&mut pace, 3), [SLOW; 3]);
        assert!(pace.hears(now));
        pace.found_nothing(now, u64::MAX);
        assert!((SLOW / 2..SLOW).contains(&(pace.look_at() - now)), "{:?}", pace.look_at() - now);
    }

    #[test]
    fn one_that_found_something_looks_at_once_and_then_often_until_its_word_is_over() {
        let start = Instant::now();
        let mut pace = Pace::new(SLOW, start);
        assert_eq!((pace.found(start), pace.look_at()), (Some(AWAKE_FOR), start));
        pace.said(start + ms(3));
        assert_eq!(waits(&mut pace, 6), [5, 10, 20, 40, 50, 50].map(ms));
        while !pace.hears(pace.look_at()) {
            assert_eq!(waits(&mut pace, 1), [ms(50)]);
        }
        // It looked once more after the last transaction that did not notify may have committed.
        let asleep = pace.look_at() - start;
        assert!((ms(2_203)..ms(2_260)).contains(&asleep), "{asleep:?}");
        assert_eq!(waits(&mut pace, 1), [SLOW]);
    }

    #[test]
    fn its_word_is_given_at_most_once_a_second() {
        let start = Instant::now();
        let mut pace = Pace::new(SLOW, start);
        let said: Vec<u64> = (0..3_500)
            .filter(|&at| {
                let is_said = pace.found(start + ms(at)).is_some();
                if is_said {
                    pace.said(start + ms(at));
                }
                is_said
            })
            .collect();
        assert_eq!(said, [0, 1_000, 2_000, 3_000]);
        // The announcement holds without a gap until about two seconds after it last found
        // something.
        let silent = (3_500..10_000).find(|&at| pace.hears(start + ms(at)));
        assert_eq!(silent, Some(5_200));
    }

    #[test]
    fn one_whose_word_was_not_heard_sleeps_soon_and_hears() {
        let start = Instant::now();
        let mut pace = Pace::new(SLOW, start);
        pace.found(start);
        assert!(!pace.hears(start) && pace.hears(start + GRACE));
    }

    #[test]
    fn a_slow_poll_may_be_quicker_than_the_others() {
        let mut pace = Pace::new(ms(10), Instant::now());
        pace.found(pace.look_at());
        assert_eq!(waits(&mut pace, 4), [5, 10, 10, 10].map(ms));
    }

    #[test]
    fn notifications_for_nothing_are_bounded() {
        let start = Instant::now();
        let (mut pace, mut now, mut looks) = (Pace::new(SLOW, start), start, 0);
        // It is notified all the time, for messages that others take.
        while now < start + ms(10_000) {
            if pace.hears(now) {
                pace.woken(now);
            }
            if pace.look_at() <= now {
                looks += 1;
                pace.found_nothing(now, 0);
            }
            now += ms(1);
        }
        assert!((100..=400).contains(&looks), "{looks} looks in 10 s");
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_for_a_notification_only_while_it_sleeps() {
        let (notify, start) = (Notify::new(), Instant::now());
        let mut pace = Pace::new(SLOW, start);
        pace.is_due(&notify).await;
        pace.found_nothing(start, 0);
        notify.notify_one();
        pace.is_due(&notify).await;
        assert_eq!(Instant::now(), start);
        pace.found(start);
        pace.found_nothing(start, 0);
        notify.notify_one();
        pace.is_due(&notify).await;
        assert_eq!(Instant::now() - start, ms(5));
    }
}
