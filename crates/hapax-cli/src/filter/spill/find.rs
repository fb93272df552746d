//! Second pass: the duplicates of each partition are marked.

use super::partitions::Partitions;
use super::records::{RECORD_BYTES, decode};
use super::table::{Seen, Table};
use crate::error::CommandError;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// The records that are looked up together.
const TOGETHER: usize = 32;

/// A part of a partition: the digests that have these highest bits.
#[derive(Clone, Copy)]
struct Part {
    partition: usize,
    bits: u32,
    highest: u128,
}

impl Part {
    fn has(self, digest: u128) -> bool {
        digest >> (128 - self.bits) == self.highest
    }

    /// Returns its two halves; none if there is no bit left that could tell digests apart.
    fn halves(self) -> Option<[Part; 2]> {
        let half = |bit| Part { bits: self.bits + 1, highest: self.highest << 1 | bit, ..self };
        (self.bits < 128).then(|| [half(0), half(1)])
    }
}

/// Marks all duplicates. Returns how often a partition was divided, since its table was full.
/// `asked` is called again and again, and returns a failure if all is to end.
pub fn duplicates(
    filed: &Partitions,
    asked: &(dyn Fn() -> Result<(), CommandError> + Sync),
) -> Result<u64, CommandError> {
    let (next, stopped, divided) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let failure = Mutex::new(None);
    let work = || {
        let mut finder = Finder { filed, table: Table::default(), buffer: Vec::new(), divided: 0 };
        while !stopped.load(Relaxed) {
            let partition = next.fetch_add(1, Relaxed);
            if partition >= filed.count() {
                break;
            }
            let part = Part { partition, bits: filed.budget.partition_bits, highest: partition as u128 };
            if let Err(error) = finder.find(part, &|| asked()) {
                stopped.store(true, Relaxed);
                failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
            }
        }
        divided.fetch_add(finder.divided, Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 1..filed.budget.threads {
            scope.spawn(work);
        }
        work();
    });
    let failure = failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    failure.map_or(Ok(divided.into_inner()), Err)
}

/// One thread's work.
struct Finder<'f> {
    filed: &'f Partitions,
    table: Table,
    buffer: Vec<u8>,
    divided: u64,
}

impl Finder<'_> {
    /// Marks the duplicates of a part. If its digests are more than there are slots, its halves are
    /// looked at one after the other.
    fn find(&mut self, part: Part, asked: &dyn Fn() -> Result<(), CommandError>) -> Result<(), CommandError> {
        let slots = Table::slots_for(self.filed.records(part.partition));
        self.table.begin(slots.min(self.filed.budget.slots));
        let is_found = match self.filed.backwards(part.partition) {
            Some(last) => self.is_found::<true>(part, last, asked),
            None => self.is_found::<false>(part, 0, asked),
        };
        if is_found? {
            return Ok(());
        }
        self.divided += 1;
        // Digests that are different can be told apart.
        part.halves().into_iter().flatten().try_for_each(|half| self.find(half, asked))
    }

    /// Streams a part through the table, beginning with this id; from its end if `LAST`. Returns
    /// false if the table became full. What is marked by then is a duplicate all the same.
    fn is_found<const LAST: bool>(
        &mut self,
        part: Part,
        mut id: u64,
        asked: &dyn Fn() -> Result<(), CommandError>,
    ) -> Result<bool, CommandError> {
        let Finder { filed, table, buffer, .. } = self;
        let is_whole = part.bits == filed.budget.partition_bits;
        let mut is_full = false;
        let mut together = [(0, 0, 0); TOGETHER];
        filed.stream(part.partition, buffer, |bytes| {
            asked()?;
            let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
            for begin in (0..records.len()).step_by(TOGETHER) {
                let (mut count, mut touched) = (0, 0);
                for at in begin..records.len().min(begin + TOGETHER) {
                    let (distance, digest) = decode(&records[if LAST { records.len() - 1 - at } else { at }]);
                    let here = if LAST { id } else { id + distance };
                    id = if LAST { id - distance } else { here };
                    let Some(digest) = digest.filter(|digest| is_whole || part.has(*digest)) else { continue };
                    let home = table.home(digest);
                    touched |= table.peek(home);
                    together[count] = (here, home, digest);
                    count += 1;
                }
                std::hint::black_box(touched);
                for (id, home, digest) in &together[..count] {
                    match table.see(*home, *digest) {
                        Seen::New => {}
                        Seen::Before => filed.marks.mark(*id),
                        Seen::Full => {
                            is_full = true;
                            return Ok(false);
                        }
                    }
                }
            }
            Ok(true)
        })?;
        Ok(!is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::super::nameless::Nameless;
    use super::*;
    use crate::filter::options::Keep;
    use std::collections::HashSet;
    use testkit::random::Random;

    /// Returns the numbers of the duplicates among these digests, with this budget, and how often a
    /// partition was divided.
    fn found(budget: Budget, keep: Keep, digests: &[u128]) -> (Vec<u64>, u64, u64) {
        let mut partitions = Partitions::new(budget, keep, Nameless::new(&std::env::temp_dir()).unwrap());
        digests.chunks(700).for_each(|batch| partitions.add(batch).unwrap());
        let divided = duplicates(&partitions, &|| Ok(())).unwrap();
        let marked = (0..digests.len() as u64).filter(|id| partitions.marks.is_marked(*id)).collect();
        (marked, divided, partitions.written())
    }

    fn expected(keep: Keep, digests: &[u128]) -> Vec<u64> {
        let mut seen = HashSet::new();
        let again = |(id, digest): (u64, &u128)| (!seen.insert(*digest)).then_some(id);
        let numbered: Vec<_> = (0..).zip(digests).collect();
        match keep {
            Keep::First => numbered.into_iter().filter_map(again).collect(),
            Keep::Last => {
                let mut marked: Vec<_> = numbered.into_iter().rev().filter_map(again).collect();
                marked.reverse();
                marked
            }
        }
    }

    #[test]
    fn a_plain_set_finds_the_same_whatever_the_sizes() {
        let (mut most_divided, mut most_written) = (0, 0);
        for seed in 1..=testkit::long(20, 60) {
            println!("seed {seed}");
            let mut random = Random(seed);
            let budget = Budget {
                partition_bits: random.within(1, 5) as u32,
                buffer_records: random.within(1, 90) as usize,
                lines_max: 1 << 20,
                threads: random.within(1, 3) as usize,
                slots: random.within(4, 2_000) as usize,
            };
            let (lines, of) = (random.within(1, 20_000), random.within(1, 15_000));
            let hot = random.below(60);
            let wide = |id: u64| u128::from(id.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(!id) << 20;
            let digests = (0..lines).map(|_| wide(if random.percent(hot) { 7 } else { random.below(of) }));
            let digests: Vec<u128> = digests.collect();
            let keep = if random.percent(50) { Keep::First } else { Keep::Last };
            let (marked, divided, written) = found(budget, keep, &digests);
            assert_eq!(marked, expected(keep, &digests), "{keep:?} {budget:?}");
            (most_divided, most_written) = (divided.max(most_divided), written.max(most_written));
        }
        assert!(most_divided > 100 && most_written > 100_000, "{most_divided} {most_written}");
    }

    #[test]
    fn digests_that_differ_in_one_bit_are_told_apart_and_far_lines_too() {
        let budget = Budget { partition_bits: 1, buffer_records: 3, lines_max: 1 << 20, threads: 2, slots: 4 };
        let bits: Vec<u128> = (0..128).map(|bit| 1 << bit).chain([0]).collect();
        // With more lines between two of them than a distance of 16 bits has room for.
        let far = std::iter::repeat_n(1 << 127 | 5, 140_000);
        let digests: Vec<u128> = bits.iter().copied().chain(far).chain(bits.iter().copied()).collect();
        for keep in [Keep::First, Keep::Last] {
            let (marked, divided, _) = found(budget, keep, &digests);
            assert!(divided > 100, "{divided}");
            assert_eq!(marked, expected(keep, &digests));
        }
    }

    #[test]
    fn too_many_lines_for_the_bitmap_are_refused_and_who_asks_for_an_end_gets_it() {
        let budget = Budget { partition_bits: 2, buffer_records: 9, lines_max: 100, threads: 2, slots: 40 };
        let mut partitions = Partitions::new(budget, Keep::First, Nameless::new(&std::env::temp_dir()).unwrap());
        partitions.add(&(0..100).map(|id| id << 120).collect::<Vec<_>>()).unwrap();
        let refused = partitions.add(&[1]).unwrap_err();
        assert!(matches!(&refused, CommandError::Usage(why) if why.contains("--max-memory: more than 100 lines")));
        let asked = duplicates(&partitions, &|| Err(CommandError::Signal(2)));
        assert!(matches!(asked, Err(CommandError::Signal(2))));
    }
}
