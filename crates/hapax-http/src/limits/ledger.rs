//! The bytes that each scope has stored within a retention, by this instance. Pure: time
//! is an argument.
//!
//! ```text
//! now ─┐
//! |e-16|e-15| … |e-1| e |      a ring of 17 parts of a retention each; a part is over when the
//!   bytes of each              last that was charged to it is, so never too early
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The number of parts of a retention.
const PARTS: u32 = 16;
const RING: usize = PARTS as usize + 1;

/// The bytes that a key counts as, besides its response.
const KEY_BYTES: u64 = 1_024;

/// The error that a scope is at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted {
    pub(crate) max: u64,
    /// The time until something of it expires.
    pub(crate) until: Duration,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of keys and responses are kept, as many as one scope may have", self.max)
    }
}

pub(crate) struct Ledger {
    max: u64,
    part: Duration,
    scopes: HashMap<Arc<str>, [Part; RING]>,
    /// The part in which the table was swept last.
    swept: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    number: u64,
    bytes: u64,
}

impl Ledger {
    /// Creates a ledger for a retention; the part is at least a nanosecond.
    pub(crate) fn new(max: u64, retention: Duration) -> Self {
        let part = (retention / PARTS).max(Duration::from_nanos(1));
        Ledger { max, part, scopes: HashMap::new(), swept: 0 }
    }

    /// Charges a key, if the scope may store one more. Returns the part to which it is charged.
    pub(crate) fn reserve(&mut self, scope: &Arc<str>, now: Duration) -> Result<u64, Exhausted> {
        let number = self.number(now);
        self.sweep(number);
        let Some(ring) = self.scopes.get_mut(scope) else {
            let mut ring = [Part::default(); RING];
            ring[number as usize % RING] = Part { number, bytes: KEY_BYTES };
            self.scopes.insert(Arc::clone(scope), ring);
            return Ok(number);
        };
        let live = |part: &&Part| is_live(part, number);
        if ring.iter().filter(live).map(|part| part.bytes).sum::<u64>() >= self.max {
            let oldest = ring.iter().filter(live).map(|part| part.number).min().unwrap_or(number);
            let ends = u32::try_from(oldest + u64::from(PARTS) + 1).unwrap_or(u32::MAX);
            let until = self.part.saturating_mul(ends).saturating_sub(now);
            return Err(Exhausted { max: self.max, until });
        }
        charge(ring, number, KEY_BYTES);
        Ok(number)
    }

    /// Charges the bytes that are stored with the key.
    pub(crate) fn keep(&mut self, scope: &Arc<str>, now: Duration, bytes: u64) {
        let number = self.number(now);
        charge(self.scopes.entry(Arc::clone(scope)).or_default(), number, bytes);
    }

    /// Takes back the charge for a key that is not stored.
    pub(crate) fn give_back(&mut self, scope: &Arc<str>, number: u64) {
        let Some(ring) = self.scopes.get_mut(scope) else { return };
        let part = &mut ring[number as usize % RING];
        if part.number == number {
            part.bytes = part.bytes.saturating_sub(KEY_BYTES);
        }
        if ring.iter().all(|part| part.bytes == 0) {
            self.scopes.remove(scope);
        }
    }

    fn number(&self, now: Duration) -> u64 {
        u64::try_from(now.as_nanos() / self.part.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Forgets scopes of which everything has expired: once in a part.
    fn sweep(&mut self, number: u64) {
        if self.swept < number {
            self.swept = number;
            self.scopes.retain(|_, ring| ring.iter().any(|part| is_live(part, number)));
            if self.scopes.capacity() > 1_024 && self.scopes.len() < self.scopes.capacity() / 8 {
                self.scopes.shrink_to(2 * self.scopes.len());
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.scopes.len()
    }
}

fn is_live(part: &Part, number: u64) -> bool {
    part.bytes > 0 && number.saturating_sub(part.number) <= u64::from(PARTS)
}

fn charge(ring: &mut [Part; RING], number: u64, bytes: u64) {
    let part = &mut ring[number as usize % RING];
    if part.number != number {
        *part = Part { number, bytes: 0 };
    }
    part.bytes += bytes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn ledger(keys: u64) -> Ledger {
        Ledger::new(keys * KEY_BYTES, HOUR)
    }

    #[test]
    fn a_scope_keeps_so_many_keys_within_a_retention_and_others_are_not_concerned() {
        let (mut ledger, a, b) = (ledger(2), Arc::from("a"), Arc::from("b"));
        assert!(ledger.reserve(&a, Duration::ZERO).is_ok());
        assert!(ledger.reserve(&a, HOUR / 2).is_ok());
        let full = ledger.reserve(&a, HOUR).unwrap_err();
        assert_eq!(full.until, HOUR / 16);
        assert!(ledger.reserve(&b, HOUR).is_ok());
        assert!(ledger.reserve(&a, HOUR + full.until).is_ok());
        // The charge for a key that was not stored after all is given back.
        let number = ledger.reserve(&b, HOUR).unwrap();
        assert!(ledger.reserve(&b, HOUR).is_err());
        ledger.give_back(&b, number);
        assert!(ledger.reserve(&b, HOUR).is_ok());
    }

    #[test]
    fn bytes_count_and_what_is_over_leaves_nothing() {
        let (mut ledger, a, b) = (ledger(10), Arc::from("a"), Arc::from("b"));
        assert!(ledger.reserve(&a, Duration::ZERO).is_ok());
        ledger.keep(&a, Duration::ZERO, 9 * KEY_BYTES);
        let full = ledger.reserve(&a, HOUR / 2).unwrap_err();
        assert_eq!(full.until, HOUR / 2 + HOUR / 16);
        assert!(ledger.reserve(&b, 2 * HOUR).is_ok());
        assert_eq!(ledger.len(), 1, "a is forgotten");
    }

    proptest! {
        /// Checks that a scope never gets more within a retention than the limit, whenever its
        /// requests come, and never fewer than that within a retention and a part of it.
        #[test]
        fn never_more_than_one_may_have(pauses in proptest::collection::vec(0_u64..800, 1..200)) {
            let (mut ledger, scope) = (ledger(5), Arc::from("a"));
            let (mut now, mut taken) = (Duration::ZERO, Vec::<Duration>::new());
            for pause in pauses {
                now += Duration::from_secs(pause);
                let within = |span: Duration| taken.iter().filter(|at| now - **at < span).count();
                let (least, most) = (within(HOUR), within(HOUR + HOUR / 16));
                match ledger.reserve(&scope, now) {
                    Ok(_) => {
                        prop_assert!(least < 5);
                        taken.push(now);
                    }
                    Err(_) => prop_assert!(most >= 5),
                }
            }
        }
    }
}
