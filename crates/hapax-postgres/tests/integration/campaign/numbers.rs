//! The numbers of effects, which are given out in another order than they are seen in. Pure.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// The time for which a transaction may have had a number, and not been committed.
const IN_FLIGHT: Duration = Duration::from_secs(15);
/// As many numbers may have been given out since the last one that a server was seen to have.
const IN_FLIGHT_MAX: i64 = 1_000;

pub struct Numbers {
    seen: HashSet<i64>,
    /// The largest number, as it was at these times.
    largest: VecDeque<(Duration, i64)>,
}

impl Numbers {
    pub fn new(now: Duration) -> Self {
        Numbers { seen: HashSet::new(), largest: [(now, 0)].into() }
    }

    /// Begins anew with the numbers that another server has: it gives out some again, and smaller
    /// ones may be in flight.
    pub fn are(&mut self, numbers: &[i64], now: Duration) {
        let largest = numbers.iter().max().map_or(0, |largest| (largest - IN_FLIGHT_MAX).max(0));
        (self.seen, self.largest) = (numbers.iter().copied().collect(), [(now, largest)].into());
    }

    /// Returns the number after which all are looked at again.
    pub fn after(&mut self, now: Duration) -> i64 {
        while self.largest.len() > 1 && self.largest[1].0 + IN_FLIGHT < now {
            self.largest.pop_front();
        }
        self.largest[0].1
    }

    /// Returns the ids of those effects, each with its number, that were not seen before.
    pub fn new_of(&mut self, effects: &[(i64, i64)], now: Duration) -> Vec<i64> {
        let after = self.after(now);
        self.seen.retain(|number| *number > after);
        self.largest.push_back((now, effects.iter().map(|(number, _)| *number).fold(after, i64::max)));
        effects.iter().filter(|(number, _)| self.seen.insert(*number)).map(|(_, id)| *id).collect()
    }
}

#[test]
fn an_effect_whose_number_was_overtaken_is_seen_once() {
    const S: Duration = Duration::from_secs(1);
    let look = |numbers: &mut Numbers, table: &[(i64, i64)], now| {
        let after = numbers.after(now);
        let rows: Vec<_> = table.iter().copied().filter(|(number, _)| *number > after).collect();
        numbers.new_of(&rows, now)
    };
    let mut numbers = Numbers::new(S);
    assert_eq!(look(&mut numbers, &[(2, 20)], 2 * S), [20]);
    assert_eq!(look(&mut numbers, &[(1, 10), (2, 20)], 3 * S), [10]);
    // Another server: 2 was lost, and 5 is there before 4.
    numbers.are(&[1, 5], 30 * S);
    assert_eq!(look(&mut numbers, &[(1, 10), (4, 40), (5, 50)], 31 * S), [40]);
    assert_eq!(look(&mut numbers, &[(1, 10), (4, 40), (5, 50), (6, 60)], 60 * S), [60]);
    assert!(look(&mut numbers, &[(1, 10), (4, 40), (5, 50), (6, 60)], 90 * S).is_empty());
}
