//! The health of a consumer: it may be paused, in an outage of what its handlers depend on, or meet
//! one error after another.

use super::outage::Outage;
use hapax::Timestamp;
use hapax_store::StoredId;
use hapax_store::sync::{Mutex, MutexGuard, lock};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::Instant;

/// The time without progress, with errors, after which a consumer is stalled.
pub(crate) const STALLED: Duration = Duration::from_secs(60);

/// The most claims in doubt that are remembered: further ones are not among the oldest.
const DOUBTS_MAX: usize = 1_024;
/// The time for which one is remembered that is not met again: its message may have gone to another
/// instance. It is longer than the longest delay by default.
const DOUBT_IS_RECENT: Duration = Duration::from_secs(900);

/// The state of a consumer: [`Consumer::health`](crate::Consumer::health).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It gets on, or has nothing to do.
    Good,
    /// It was [paused](crate::Consumer::pause).
    Paused,
    /// It gets on, and takes nothing for a duplicate: [`bypass`](crate::Consumer::bypass) of it or
    /// of its engine is on.
    Bypassed,
    /// Different messages have failed one after another, for this long: they are tried one at a
    /// time.
    Outage(Duration),
    /// Nothing was acknowledged for a minute or more, since one error follows the other.
    Stalled {
        /// The time since the first of these errors.
        since: Duration,
        /// The last one.
        why: String,
    },
}

/// The state that a consumer's runs share with its interface.
pub(crate) struct Standing {
    pub(crate) paused: watch::Sender<bool>,
    outage: Mutex<Outage>,
    errors: Mutex<Option<Errors>>,
    /// The claims in doubt that were met: when each was begun, and met last.
    doubts: Mutex<HashMap<StoredId, (Timestamp, Instant)>>,
}

/// The errors since something was acknowledged.
struct Errors {
    since: Instant,
    told: Instant,
    why: String,
}

impl Standing {
    pub(crate) fn new() -> Self {
        let paused = watch::Sender::new(false);
        Standing { paused, outage: Mutex::default(), errors: Mutex::default(), doubts: Mutex::default() }
    }

    pub(crate) fn outage(&self) -> MutexGuard<'_, Outage> {
        lock(&self.outage)
    }

    /// Notes that a claim of this id is in doubt.
    pub(crate) fn is_in_doubt(&self, id: StoredId, begun_at: Timestamp) {
        let mut doubts = lock(&self.doubts);
        if doubts.len() < DOUBTS_MAX || doubts.contains_key(&id) {
            doubts.insert(id, (begun_at, Instant::now()));
        }
    }

    /// Notes that this id is done.
    pub(crate) fn is_done(&self, id: StoredId) {
        lock(&self.doubts).remove(&id);
    }

    /// Returns the age of the oldest claim in doubt that was met lately, and is not done.
    pub(crate) fn oldest_doubt(&self) -> Duration {
        let mut doubts = lock(&self.doubts);
        if doubts.is_empty() {
            return Duration::ZERO;
        }
        doubts.retain(|_, (_, met)| met.elapsed() < DOUBT_IS_RECENT);
        let begun = doubts.values().map(|(begun_at, _)| *begun_at).min();
        begun.map_or(Duration::ZERO, |begun| Timestamp::from(SystemTime::now()).since(begun))
    }

    /// Notes that something was acknowledged.
    pub(crate) fn went_on(&self) {
        *lock(&self.errors) = None;
    }

    /// Notes an error. Returns the time since which there were nothing but errors, if it is long
    /// and was not told in the last minute.
    pub(crate) fn met(&self, why: &str, now: Instant) -> Option<Duration> {
        let mut errors = lock(&self.errors);
        let errors = errors.get_or_insert_with(|| Errors { since: now, told: now, why: String::new() });
        why.clone_into(&mut errors.why);
        if now.saturating_duration_since(errors.told) < STALLED {
            return None;
        }
        errors.told = now;
        Some(now.saturating_duration_since(errors.since))
    }

    pub(crate) fn health(&self, now: Instant) -> Health {
        if *self.paused.borrow() {
            return Health::Paused;
        }
        if let Some(since) = self.outage().since() {
            return Health::Outage(now.saturating_duration_since(since));
        }
        match &*lock(&self.errors) {
            Some(Errors { since, why, .. }) if now.saturating_duration_since(*since) >= STALLED => {
                Health::Stalled { since: now.saturating_duration_since(*since), why: why.clone() }
            }
            _ => Health::Good,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_without_progress_are_told_once_a_minute() {
        let (standing, begin) = (Standing::new(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(standing.met("no answer", begin), None);
        assert_eq!((standing.met("no answer", after(59)), standing.health(after(59))), (None, Health::Good));
        assert_eq!(standing.met("refused", after(60)), Some(STALLED));
        assert_eq!(standing.met("refused", after(61)), None, "it was told");
        let stalled = Health::Stalled { since: Duration::from_secs(100), why: "refused".to_owned() };
        assert_eq!(standing.health(after(100)), stalled);
        standing.went_on();
        assert_eq!(standing.health(after(100)), Health::Good);
        standing.paused.send_replace(true);
        assert_eq!(standing.health(begin), Health::Paused);
    }
}
