//! Pauses topics whose broker is away: a state machine without a clock or a broker.
//!
//! If messages of a topic fail that never failed before, one after the other, and none succeeds in
//! between, they are not at fault: their broker is. The topic pauses then, and a few messages probe
//! now and then. (A circuit breaker: Nygard, *Release It!*, 2007.) What fails once more says
//! nothing of the broker: it has a back-off of its own, and may be refused for good.

use hapax_store::back_off::BackOff;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// The number of messages that fail in a row before a pause.
const FAILURES: u32 = 8;
/// The most messages without a key, and the most keys, that probe a topic together.
pub(crate) const PROBES: usize = 8;
const WAITS: BackOff = BackOff { first: Duration::from_millis(200), max: Duration::from_secs(30) };
/// The most topics that pause, and the most of which failures are counted. In others each message
/// has its back-off.
const TOPICS_MAX: usize = 4_096;

/// The end of a publication, as far as it says something about the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Success,
    /// The failure of a message that had not failed before.
    Failure,
    /// No information: the message cannot be published whatever the broker does, or has failed
    /// before.
    Nothing,
}

/// A change that a signal has caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Paused,
    Resumed,
}

/// The topics that pause, and those that fail.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    /// The messages that have failed since one last succeeded, for each topic that does not pause.
    failing: HashMap<String, u32>,
    paused: HashMap<String, Pause>,
    /// A time before which no topic is to be probed.
    probe_at: Option<Instant>,
}

#[derive(Debug)]
struct Pause {
    /// The number that the wait grows with: one, and one for each round with news.
    pauses: u32,
    /// The time of the next probes; while some are in flight, of those that follow if nobody ever
    /// reports how they ended.
    until: Instant,
    /// Probes that were claimed and have not ended.
    in_flight: usize,
    /// True if one of these failed that had not failed before.
    has_news: bool,
}

impl Breakers {
    pub(crate) fn is_paused(&self, topic: &str) -> bool {
        self.paused.contains_key(topic)
    }

    /// Returns the number of topics that pause.
    pub(crate) fn paused(&self) -> usize {
        self.paused.len()
    }

    /// Returns when to ask for [`probes`](Self::probes), or sooner.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        self.probe_at
    }

    /// Begins to probe topics whose wait is over, up to this many: those first that have waited for
    /// longest. A probe takes at most `longest`.
    pub(crate) fn probes(&mut self, topics_max: usize, longest: Duration, now: Instant) -> Vec<String> {
        let mut due: Vec<(&String, &mut Pause)> =
            self.paused.iter_mut().filter(|(_, pause)| pause.until <= now).collect();
        due.sort_by_key(|(_, pause)| pause.until);
        let begin = |(topic, pause): (&String, &mut Pause)| {
            (pause.until, pause.in_flight, pause.has_news) = (now + 2 * longest, 0, false);
            topic.clone()
        };
        let topics = due.into_iter().take(topics_max).map(begin).collect();
        self.probe_at = self.paused.values().map(|pause| pause.until).min();
        topics
    }

    /// Records how many probes were found for a topic. If there are none it waits as long again.
    pub(crate) fn probing(&mut self, topic: &str, found: usize, now: Instant, random: u64) {
        if let Some(pause) = self.paused.get_mut(topic) {
            pause.in_flight = found;
            if found == 0 {
                self.wait(topic, now, random);
            }
        }
    }

    /// Records that a probe has ended, or was given back: after its signal.
    pub(crate) fn probed(&mut self, topic: &str, now: Instant, random: u64) {
        if let Some(pause) = self.paused.get_mut(topic)
            && pause.in_flight > 0
        {
            pause.in_flight -= 1;
            if pause.in_flight == 0 {
                pause.pauses = pause.pauses.saturating_add(u32::from(pause.has_news));
                self.wait(topic, now, random);
            }
        }
    }

    /// Records how a publication ended.
    pub(crate) fn ended(
        &mut self,
        topic: &str,
        is_probe: bool,
        signal: Signal,
        now: Instant,
        random: u64,
    ) -> Option<Change> {
        match signal {
            // A success from before the pause counts, too: the broker is there.
            Signal::Success => {
                self.failing.remove(topic);
                self.paused.remove(topic).map(|_| Change::Resumed)
            }
            Signal::Failure => match self.paused.get_mut(topic) {
                // A failure of a publication that began before the pause is no news.
                Some(pause) => {
                    pause.has_news |= is_probe;
                    None
                }
                None => self.failed(topic, now, random),
            },
            Signal::Nothing => None,
        }
    }

    fn failed(&mut self, topic: &str, now: Instant, random: u64) -> Option<Change> {
        if !self.failing.contains_key(topic) && self.failing.len() >= TOPICS_MAX {
            // Forgetting costs a few attempts, if the broker is away.
            self.failing.clear();
        }
        let failed = self.failing.entry(topic.to_owned()).or_default();
        *failed += 1;
        if *failed < FAILURES || self.paused.len() >= TOPICS_MAX {
            return None;
        }
        self.failing.remove(topic);
        let pause = Pause { pauses: 1, until: now, in_flight: 0, has_news: false };
        self.paused.insert(topic.to_owned(), pause);
        self.wait(topic, now, random);
        Some(Change::Paused)
    }

    fn wait(&mut self, topic: &str, now: Instant, random: u64) {
        if let Some(pause) = self.paused.get_mut(topic) {
            pause.until = now + WAITS.after(pause.pauses, random);
            self.probe_at = Some(self.probe_at.map_or(pause.until, |at| at.min(pause.until)));
        }
    }
}

#[cfg(test)]
mod tests;
