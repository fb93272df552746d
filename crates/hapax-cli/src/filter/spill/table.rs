//! A set of digests of bounded size. Pure.

/// The digests that were seen, each in one slot: linear probing.
#[derive(Default)]
pub struct Table {
    /// Zero is an empty slot.
    slots: Vec<u128>,
    /// The slots in use, from the first.
    size: usize,
    free: usize,
    /// True if the digest zero was seen, which no slot can hold.
    zero: bool,
}

/// The answer to a digest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    New,
    Before,
    /// It is new, and there is no room for it.
    Full,
}

impl Table {
    /// Forgets all, and makes this many slots. Memory is reused.
    pub fn begin(&mut self, slots: usize) {
        let slots = slots.max(4);
        if self.slots.len() < slots {
            // Both at once would be more than is allowed.
            self.slots = Vec::new();
            self.slots = vec![0; slots];
        } else {
            self.slots[..slots].fill(0);
        }
        (self.size, self.free, self.zero) = (slots, slots / 4 * 3, false);
    }

    /// Returns the slots that hold this many digests at most.
    pub fn slots_for(digests: u64) -> usize {
        usize::try_from(digests / 3 + 1).unwrap_or(usize::MAX).saturating_mul(4)
    }

    /// Returns the slot where looking for a digest begins, by its lower half: its higher bits are
    /// those of its partition.
    #[inline]
    pub fn home(&self, digest: u128) -> usize {
        ((u128::from(digest as u64) * self.size as u128) >> 64) as usize
    }

    /// Returns a slot's content. Asking for several of them at once makes memory wait for all
    /// together.
    #[inline]
    pub fn peek(&self, slot: usize) -> u128 {
        self.slots[slot]
    }

    /// Takes in a digest, beginning at its [`home`](Table::home).
    #[inline]
    pub fn see(&mut self, home: usize, digest: u128) -> Seen {
        if digest == 0 {
            return if std::mem::replace(&mut self.zero, true) { Seen::Before } else { Seen::New };
        }
        // A quarter of the slots is empty, so it ends.
        let mut slot = home;
        loop {
            match self.slots[slot] {
                0 if self.free == 0 => return Seen::Full,
                0 => {
                    self.slots[slot] = digest;
                    self.free -= 1;
                    return Seen::New;
                }
                there if there == digest => return Seen::Before,
                _ => slot = if slot + 1 == self.size { 0 } else { slot + 1 },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use testkit::random::Random;

    #[test]
    fn a_table_is_a_set_up_to_its_size() {
        for seed in 1..=50 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let mut table = Table::default();
            for _ in 0..3 {
                let (slots, of) = (random.within(1, 400) as usize, random.within(1, 500));
                table.begin(slots);
                let (mut set, mut full) = (HashSet::new(), false);
                for _ in 0..1_000 {
                    // Some have one home, and zero is one of them.
                    let id = random.below(of);
                    let digest = u128::from((id / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | u128::from(id % 8) << 100;
                    let expected = match (set.contains(&digest), full && digest != 0) {
                        (true, _) => Seen::Before,
                        (false, true) => Seen::Full,
                        (false, false) => Seen::New,
                    };
                    assert_eq!(table.see(table.home(digest), digest), expected);
                    if expected == Seen::New {
                        set.insert(digest);
                    }
                    full = set.iter().filter(|digest| **digest != 0).count() == slots.max(4) / 4 * 3;
                }
            }
        }
    }

    #[test]
    fn as_many_as_it_is_made_for_fit() {
        for digests in [0, 1, 2, 3, 4, 100, 101] {
            let mut table = Table::default();
            table.begin(Table::slots_for(digests));
            for digest in 1..=u128::from(digests) {
                assert_eq!(table.see(table.home(digest), digest), Seen::New, "{digests}");
            }
        }
    }
}
