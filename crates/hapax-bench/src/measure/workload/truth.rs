//! The true answers, exactly.

use super::{LEAD_TICKS_MAX, WINDOW_TICKS};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// The truth about an id when it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Truth {
    /// Never seen before: fresh. Other threads may check it within the lead of one thread over
    /// another ([`LEAD_TICKS_MAX`]): whichever comes first, exactly one of all these checks is told
    /// that it is fresh.
    New,
    /// Fresh again: it was last accepted at least a window and two ticks ago.
    Expired,
    /// Duplicate: it was accepted less than a window ago.
    Duplicate,
    /// Undecided: the id's age is in between, where a strategy may answer either way; or it is not
    /// certain when the id was last accepted, since a strategy could answer either way then.
    Undecided,
    /// New to another thread within the lead.
    Shared,
}

impl Truth {
    /// Returns true if the right answer is that it is fresh, to its own thread or to one that comes
    /// first.
    pub fn is_fresh(self) -> bool {
        matches!(self, Truth::New | Truth::Expired)
    }
}

/// The ages at which an answer is certain, in ticks since an id was accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::measure) struct Certain {
    /// The age below which it is a duplicate.
    pub duplicate_below: usize,
    /// The age from which on it is fresh.
    pub fresh_from: usize,
}

impl Certain {
    /// Returns the ages for a number of threads. They disagree about the time by as much as one may
    /// be ahead of the others.
    pub fn with_threads(threads: usize) -> Self {
        let lead = if threads > 1 { LEAD_TICKS_MAX } else { 0 };
        Certain { duplicate_below: WINDOW_TICKS - lead, fresh_from: WINDOW_TICKS + 2 + lead }
    }

    /// Returns the truth about an id that was certainly accepted this many ticks ago.
    pub fn after(self, ticks: usize) -> Truth {
        match ticks {
            ticks if ticks < self.duplicate_below => Truth::Duplicate,
            ticks if ticks < self.fresh_from => Truth::Undecided,
            _ => Truth::Expired,
        }
    }
}

/// Computes the truth about ids that come in any order.
pub(super) struct Ledger<K> {
    certain: Certain,
    seen: HashMap<K, Accepted, foldhash::fast::RandomState>,
}

/// The times at which an id may have been accepted last: not one time, once an answer was
/// undecided.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Accepted {
    /// The tick in which it was checked last.
    checked_tick: usize,
    /// A bit for each age: bit n means perhaps accepted n ticks before that.
    ages: u128,
}

// All ages at which an id may be remembered have a bit.
const _: () = assert!(WINDOW_TICKS + 2 + LEAD_TICKS_MAX < 128);

impl<K: Hash + Eq> Ledger<K> {
    pub fn new(certain: Certain) -> Self {
        Ledger { certain, seen: HashMap::default() }
    }

    /// Returns the truth about an id that is checked now; ticks do not go back.
    pub fn check(&mut self, id: K, tick: usize) -> Truth {
        match self.seen.entry(id) {
            Entry::Occupied(mut entry) => entry.get_mut().check(tick, self.certain),
            Entry::Vacant(entry) => {
                entry.insert(Accepted { checked_tick: tick, ages: 1 });
                Truth::New
            }
        }
    }
}

impl Accepted {
    fn check(&mut self, tick: usize, certain: Certain) -> Truth {
        let Certain { duplicate_below, fresh_from } = certain;
        let passed = tick - self.checked_tick;
        let (ages, any_fresh) = match fresh_from.checked_sub(passed) {
            None | Some(0) => (0, true),
            Some(still) => (self.ages << passed & ((1 << fresh_from) - 1), self.ages >> still != 0),
        };
        let any_duplicate = ages & ((1 << duplicate_below) - 1) != 0;
        let any_between = ages >> duplicate_below != 0;
        let truth = match (any_duplicate, any_between, any_fresh) {
            (true, false, false) => Truth::Duplicate,
            (false, false, true) => Truth::Expired,
            _ => Truth::Undecided,
        };
        // If the answer may have been fresh, it may be accepted now; if it was not, its age stays.
        let accepted_now = any_between || any_fresh;
        *self = Accepted { checked_tick: tick, ages: ages | u128::from(accepted_now) };
        truth
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax::seam::random::Random;
    use std::collections::BTreeSet;

    #[test]
    fn the_edges_of_the_window() {
        let at = |ticks: &[usize], threads| {
            let mut ledger = Ledger::new(Certain::with_threads(threads));
            ticks.iter().map(|&tick| ledger.check(7, tick)).collect::<Vec<_>>()
        };
        use Truth::{Duplicate, Expired, New, Undecided};
        assert_eq!(at(&[5, 5, 104], 1), [New, Duplicate, Duplicate]);
        assert_eq!(at(&[5, 105], 1), [New, Undecided]);
        assert_eq!(at(&[5, 106], 1), [New, Undecided]);
        assert_eq!(at(&[5, 107, 206, 209], 1), [New, Expired, Duplicate, Expired]);
        // It was accepted at 0 or at 100: neither answer is wrong before both agree.
        assert_eq!(
            at(&[0, 100, 101, 102, 199, 203, 305], 1),
            [New, Undecided, Undecided, Undecided, Duplicate, Undecided, Expired]
        );
        assert_eq!(at(&[0, 89, 90], 2), [New, Duplicate, Undecided]);
        assert_eq!(at(&[0, 111], 2), [New, Undecided]);
        assert_eq!(at(&[0, 112], 2), [New, Expired]);
        assert_eq!(at(&[0, 100_000], 2), [New, Expired]);
    }

    /// Compares all histories that a strategy may have, one by one, with the bits.
    #[test]
    fn the_truth_is_what_all_strategies_agree_on() {
        let seed = 0x7e57;
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut seen = [0; 3];
        for threads in [1, 2] {
            let certain = Certain::with_threads(threads);
            for _ in 0..2_000 {
                let mut ledger = Ledger::new(certain);
                let (mut tick, mut accepted) = (0, BTreeSet::from([0]));
                assert_eq!(ledger.check((), tick), Truth::New);
                for _ in 0..30 {
                    tick +=
                        [random.below(4), 88 + random.below(30), random.below(250)][random.below(3) as usize] as usize;
                    let answers: BTreeSet<_> = accepted.iter().map(|at| certain.after(tick - at) as u8).collect();
                    let expected = match answers.iter().collect::<Vec<_>>()[..] {
                        [answer] if *answer == Truth::Duplicate as u8 => Truth::Duplicate,
                        [answer] if *answer == Truth::Expired as u8 => Truth::Expired,
                        _ => Truth::Undecided,
                    };
                    assert_eq!(ledger.check((), tick), expected, "at {tick}, accepted at {accepted:?}");
                    seen[expected as usize - 1] += 1;
                    let after = accepted.iter().flat_map(|&at| match certain.after(tick - at) {
                        Truth::Duplicate => vec![at],
                        Truth::Undecided => vec![at, tick],
                        _ => vec![tick],
                    });
                    accepted = after.collect();
                }
            }
        }
        assert!(seen.iter().all(|&times| times > 1_000), "all three come: {seen:?}");
    }
}
