//! Outages of what handlers depend on: when different messages fail one after another, it is not
//! the messages. Then they are tried one at a time, and no failure counts, until one succeeds.
//!
//! A circuit breaker (Nygard, *Release It!*, 2007) around the handler.

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
            return now.saturating_duration_since(on.since) >= LONGEST;
        }
        self.failed.insert(id);
        if self.failed.len() < DIFFERENT {
            return !self.forgiven.remove(&id);
        }
        if self.forgiven.len() >= FORGIVEN_MAX {
            self.forgiven.clear();
        }
        // The last of them has no attempt more: this failure has not counted.
        self.failed.remove(&id);
        self.forgiven.extend(self.failed.drain());
        self.is_on = Some(On { since: now, next: now + BACK_OFF.after(1, random), tried: 0 });
        false
    }

    /// Notes that a message that was tried in the outage could not be handled.
    pub(crate) fn tried_in_vain(&mut self, now: Instant, random: u64) {
        if let Some(on) = &mut self.is_on {
            on.tried = on.tried.saturating_add(1);
            on.next = now + BACK_OFF.after(on.tried.saturating_add(1), random);
        }
    }

    /// Notes that a message was handled, which ends the outage.
    pub(crate) fn succeeded(&mut self) {
        self.failed.clear();
        self.is_on = None;
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

    /// Runs a script, and returns what was seen. A digit: that message fails, and it counts (`+`)
    /// or not (`-`). `v`: a try in vain, `w`: none; both show the wait for the next in half
    /// seconds. `s`: a success. `g`, `h`: almost an hour passes, or an hour. `?`: an outage (`o`),
    /// or none (`.`).
    fn seen(script: &str) -> String {
        let (mut outage, mut now) = (Outage::default(), Instant::now());
        let mut seen = String::new();
        for step in script.chars() {
            match step {
                '0'..='9' => {
                    let counts = outage.failed(StoredId::new(&[step as u8]), now, 0);
                    seen.push(if counts { '+' } else { '-' });
                }
                's' => outage.succeeded(),
                'h' => now += LONGEST,
                'g' => now += LONGEST - Duration::from_nanos(1),
                '?' => seen.push(if outage.since().is_some() { 'o' } else { '.' }),
                _ => {
                    if step == 'v' {
                        outage.tried_in_vain(now, 0);
                    }
                    let wait = outage.next().map_or(0, |next| (next - now).as_millis() / 500);
                    seen.push_str(&wait.to_string());
                }
            }
        }
        seen
    }

    #[test]
    fn each_rule_holds() {
        for (rule, script, shows) in [
            ("one message that fails again and again is one", "11111?", "+++++."),
            ("five are an outage", "12345?", "++++-o"),
            ("those before a success are not counted with those after it", "1234s5?", "+++++."),
            ("in an outage none counts", "1234561g1", "++++----"),
            ("after an hour they count again", "12345h6?", "++++-+o"),
            ("those that made it known have one attempt more", "12345s14", "++++---"),
            ("the last of them has not: its failure has not counted", "12345s5", "++++-+"),
            ("one more, and not two", "12345s11", "++++--+"),
            ("the first try waits, too", "12345w", "++++-1"),
            ("each in vain makes the next wait longer", "12345vvv", "++++-248"),
            ("a success ends it", "12345s?6", "++++-.+"),
        ] {
            assert_eq!(seen(script), shows, "{rule}: {script}");
        }
    }

    #[test]
    fn no_more_messages_are_remembered_after_a_thousand_outages_than_may_be() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        for round in 0..1_000_u32 {
            for n in 0..DIFFERENT as u32 {
                outage.failed(StoredId::new(&[round.to_le_bytes(), n.to_le_bytes()].concat()), now, 0);
            }
            outage.succeeded();
            assert!(outage.forgiven.len() < FORGIVEN_MAX + DIFFERENT);
        }
    }

    #[test]
    fn in_an_outage_messages_are_tried_seldom() {
        let (mut outage, begin) = (Outage::default(), Instant::now());
        (0..DIFFERENT as u8).for_each(|n| _ = outage.failed(StoredId::new(&[n]), begin, 0));
        let (mut now, mut tried) = (begin, 0);
        while !outage.failed(StoredId::new(&[0]), now, tried) {
            now = outage.next().unwrap();
            outage.tried_in_vain(now, tried);
            tried += 1;
        }
        assert!((120..260).contains(&tried), "every 15 to 30 s for an hour: {tried}");
        assert!(now >= begin + LONGEST);
    }
}
