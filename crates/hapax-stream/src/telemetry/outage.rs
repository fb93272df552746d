//! Outages of what handlers depend on: when different messages fail one after another, it is not
//! the messages. Then they are tried one at a time, and no failure counts, until one succeeds.
//!
//! A circuit breaker (Nygard, *Release It!*, 2007) around the handler.

#[cfg(test)]
mod mutants;
mod rules;

use self::rules::{Rule, obeys};
use hapax_store::StoredId;
use hapax_store::back_off::BackOff;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// The number of different messages that fail without a success between them: an outage.
const DIFFERENT: usize = 5;

/// The wait before a message is tried in an outage.
const BACK_OFF: BackOff = BackOff { first: Duration::from_millis(500), max: Duration::from_secs(30) };

/// The time after which failures count in an outage, too. Where nothing comes any more but messages
/// that fail by their own fault, this is how they end.
const LONGEST: Duration = Duration::from_secs(3600);

/// The largest number of messages to remember.
const FORGIVEN_MAX: usize = 1_024;

/// The failures since a message was handled.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    failed: HashSet<StoredId>,
    /// Those whose failures counted before they were known to be an outage: each has one attempt
    /// more.
    forgiven: HashSet<StoredId>,
    is_on: Option<On>,
}

#[derive(Debug)]
struct On {
    since: Instant,
    /// The earliest time at which the next message is tried.
    next: Instant,
    /// The number of those that were tried in vain.
    tried: u32,
}

impl Outage {
    /// Notes that a message could not be handled. Returns true if that counts as an attempt.
    pub(crate) fn failed(&mut self, id: StoredId, now: Instant, random: u64) -> bool {
        if let Some(on) = &self.is_on {
            let is_over = obeys(Rule::Longest) && now.saturating_duration_since(on.since) >= LONGEST;
            return is_over || !obeys(Rule::NoneCounts);
        }
        let another = || StoredId::new(&self.failed.len().to_le_bytes());
        let counted = if obeys(Rule::Different) { id } else { another() };
        self.failed.insert(counted);
        if self.failed.len() < DIFFERENT || !obeys(Rule::Enough) {
            let is_forgiven = if obeys(Rule::Once) { self.forgiven.remove(&id) } else { self.forgiven.contains(&id) };
            return !is_forgiven;
        }
        if self.forgiven.len() >= FORGIVEN_MAX && obeys(Rule::Bound) {
            self.forgiven.clear();
        }
        if obeys(Rule::NotTheLast) {
            self.failed.remove(&id);
        }
        let failed = self.failed.drain().filter(|_| obeys(Rule::Forgive));
        self.forgiven.extend(failed);
        let wait = if obeys(Rule::FirstWait) { BACK_OFF.after(1, random) } else { Duration::ZERO };
        self.is_on = Some(On { since: now, next: now + wait, tried: 0 });
        false
    }

    /// Notes that a message that was tried in the outage could not be handled.
    pub(crate) fn tried_in_vain(&mut self, now: Instant, random: u64) {
        if let Some(on) = &mut self.is_on {
            on.tried = if obeys(Rule::LongerWaits) { on.tried.saturating_add(1) } else { 0 };
            on.next = now + BACK_OFF.after(on.tried.saturating_add(1), random);
        }
    }

    /// Notes that a message was handled, which ends the outage.
    pub(crate) fn succeeded(&mut self) {
        if obeys(Rule::Between) {
            self.failed.clear();
        }
        self.is_on = self.is_on.take().filter(|_| !obeys(Rule::Ends));
    }

    /// Returns the time since which there is an outage.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.is_on.as_ref().map(|on| on.since)
    }

    /// Returns the earliest time at which the next message may be tried, in an outage.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.is_on.as_ref().map(|on| on.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> StoredId {
        StoredId::new(&n.to_le_bytes())
    }

    #[test]
    fn different_messages_that_fail_one_after_another_are_an_outage() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        for _ in 0..100 {
            assert!(outage.failed(id(0), now, 0), "one message that fails by itself");
        }
        for n in 1..DIFFERENT - 1 {
            assert!(outage.failed(id(n), now, 0) && outage.since().is_none());
        }
        outage.succeeded();
        for n in 0..DIFFERENT - 1 {
            assert!(outage.failed(id(n), now, 0), "one was handled between them");
        }
        assert!(!outage.failed(id(DIFFERENT), now, 0));
        assert_eq!(outage.since(), Some(now));
        let later = now + LONGEST - Duration::from_nanos(1);
        assert!((0..100).all(|n| !outage.failed(id(n), later, 0)), "none counts");
        outage.succeeded();
        assert!(outage.since().is_none() && outage.failed(id(DIFFERENT), later, 0));
        for n in 0..DIFFERENT - 2 {
            assert!(!outage.failed(id(n), later, 0) && outage.failed(id(n), later, 0), "one is given back");
        }
    }

    #[test]
    fn in_an_outage_messages_are_tried_seldom_and_after_an_hour_failures_count() {
        let (mut outage, begin) = (Outage::default(), Instant::now());
        for n in 0..DIFFERENT {
            outage.failed(id(n), begin, 0);
        }
        let (mut now, mut tried) = (begin, 0);
        while !outage.failed(id(tried), now, tried as u64) {
            now = outage.next().unwrap();
            outage.tried_in_vain(now, tried as u64);
            tried += 1;
        }
        assert!((120..260).contains(&tried), "every 15 to 30 s for an hour: {tried}");
        assert!(now >= begin + LONGEST);
    }
}
