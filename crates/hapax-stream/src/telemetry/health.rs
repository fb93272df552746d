//! The health of a consumer: it may be paused, in an outage of what its handlers depend on, or meet
//! one error after another.

use super::outage::Outage;
use hapax_store::sync::{Mutex, MutexGuard, lock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The time without progress, with errors, after which a consumer is stalled.
pub(crate) const STALLED: Duration = Duration::from_secs(60);

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
}

/// The errors since something was acknowledged.
struct Errors {
    since: Instant,
    told: Instant,
    why: String,
}

impl Standing {
    pub(crate) fn new() -> Self {
        Standing { paused: watch::Sender::new(false), outage: Mutex::default(), errors: Mutex::default() }
    }

    pub(crate) fn outage(&self) -> MutexGuard<'_, Outage> {
        lock(&self.outage)
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
