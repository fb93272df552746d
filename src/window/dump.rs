//! The dump of a window: reads all its live entries while checks go on, and restores them into
//! another one.
//!
//! Only the bucket in which an id lives is known, not its place in full, so its table must be
//! restored with as many buckets.

use super::Window;
use super::bucket_memory::BucketMemory;
use super::slot::{SLOTS, Slot};
use super::table::TableMemory;
use crate::clock::{Reading, nanos_of};
use crate::digest::Digest;
use crate::{Error, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

/// A part of a window's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dumped {
    /// The beginning of a table of this many buckets; older tables come first.
    Table { buckets: usize },
    /// An id, and the tick with which it was stamped.
    Entry { id: Digest, stamp: u64 },
}

impl Window {
    /// Reads every id that was accepted before the call and is still live, at least once.
    ///
    /// Entries move between buckets meanwhile, and are always in their new place before they leave
    /// the old one. So an entry can be missed only by reading its new bucket too early and its old
    /// one too late: buckets that have changed since they were read are read again at the end.
    ///
    /// Entries that live in their alternate buckets come last. If they were restored while buckets
    /// are still filling, they would be the oldest there, and lost: ten times as many as when they
    /// came for the first time.
    ///
    /// Sets no time.
    pub(crate) fn dump(&self, mut each: impl FnMut(Dumped)) {
        let tables = self.tables();
        let newest_first: Vec<_> = tables.roster().indices().collect();
        for &index in newest_first.iter().rev() {
            let memory = tables.memory(index);
            each(Dumped::Table { buckets: memory.buckets() });
            let mut read = vec![0; memory.buckets()];
            for again in [false, true] {
                let mut dump_bucket = |bucket| self.dump_bucket(&memory, bucket, again, &mut read[bucket], &mut each);
                (0..memory.buckets()).for_each(&mut dump_bucket);
            }
        }
    }

    /// Reads the entries of a bucket that live at home; on the second reading the others, and all
    /// of them if the bucket has changed.
    fn dump_bucket(
        &self,
        memory: &TableMemory<'_>,
        bucket: usize,
        again: bool,
        read: &mut u32,
        each: &mut impl FnMut(Dumped),
    ) {
        let moment = memory.moment(self.tables().shared.agreed());
        memory.ready(bucket, &moment);
        let slots: [Slot; SLOTS] = std::array::from_fn(|slot| memory.load(bucket, slot));
        let mut bytes = [0; 8 * SLOTS];
        bytes.chunks_exact_mut(8).zip(slots).for_each(|(bytes, slot)| bytes.copy_from_slice(&slot.0.to_le_bytes()));
        // Never 0, so that a bucket that was not read does not count as read.
        #[expect(clippy::cast_possible_truncation, reason = "a part of the hash is enough")]
        let content = xxh3_64(&bytes) as u32 | 1;
        let is_known = std::mem::replace(read, content) == content;
        for slot in slots {
            let Some(tag) = slot.tag().filter(|_| moment.is_live(slot.0)) else {
                continue;
            };
            let is_for_another_time = if slot.is_away() { !again } else { is_known };
            if is_for_another_time {
                continue;
            }
            let home = if slot.is_away() { tag.alternate(bucket, memory.buckets()) } else { bucket };
            let id = Digest { place: place_in(home, memory.buckets()), mark: tag.as_mark() };
            each(Dumped::Entry { id, stamp: moment.stamp_of(slot.0) });
        }
    }

    /// Returns a reading that stamps with this tick, and for which it is no later than when that
    /// was done.
    pub(crate) fn reading_of_stamp(&self, stamp: u64) -> Reading {
        let nanos = nanos_of(self.tick());
        let time = Timestamp::from_nanos(stamp.saturating_sub(2).saturating_mul(nanos));
        Reading { time, lag_nanos: 2 * nanos }
    }

    /// Restores one table after another: each call creates one, and then its ids are inserted. No
    /// other thread may know the window yet.
    pub(crate) fn restore_table(&self, buckets: u64, is_first: bool) -> Result<(), Error> {
        self.growth.restore_table(buckets, is_first)
    }

    /// Sets whether tables are started and retired by the callers that notice that it is time. Off
    /// while tables are restored.
    pub(crate) fn look_after_tables(&self, on: bool) {
        self.growth.look_after_tables(on);
    }
}

/// Returns the least place that is in this bucket.
#[expect(clippy::cast_possible_truncation, reason = "below 2^64, since the bucket is one of them")]
fn place_in(bucket: usize, buckets: usize) -> u64 {
    (((bucket as u128) << 64).div_ceil(buckets as u128)) as u64
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::long::long;
    use crate::window::scale;
    use std::collections::HashSet;
    use std::time::Duration;

    #[test]
    fn a_place_in_a_bucket_is_in_it() {
        for buckets in [2, 1_024, 1_030, 2_875_804] {
            for bucket in [0, 1, buckets / 3, buckets - 1] {
                assert_eq!(scale(place_in(bucket, buckets), buckets), bucket);
            }
        }
    }

    #[test]
    fn all_live_ids_come_back_with_their_stamps() {
        let digester = crate::Digester::with_seed(3);
        let digest = |n: u64| digester.digest(n.to_le_bytes());
        let new = || Window::with_growth(Duration::from_secs(100), 20_000, None, false).unwrap();
        let window = new();
        // The window grows meanwhile, and a part expires.
        for n in 0..60_000_u64 {
            window.check(digest(n), Timestamp::from_millis(n * 2));
        }
        let at = Timestamp::from_millis(120_000);
        window.advance(at.into());
        let (mut dumped, mut tables) = (Vec::new(), 0);
        window.dump(|what| match what {
            Dumped::Table { .. } => tables += 1,
            Dumped::Entry { id, stamp } => dumped.push((id, stamp)),
        });
        assert!(tables > 1);
        let live = (0..60_000).filter(|n| window.contains(digest(*n), at)).count();
        // An id that came while a table was started may be in two.
        let ids = dumped.iter().map(|(id, _)| *id).collect::<HashSet<_>>().len();
        assert!((live..live + 10).contains(&ids), "{ids} of {live}");
        let stamps: HashSet<_> = dumped.iter().map(|(_, stamp)| *stamp).collect();
        assert!(stamps.iter().all(|stamp| (19..=121).contains(stamp)), "{stamps:?}");

        let restored = new();
        restored.look_after_tables(false);
        let mut is_first = true;
        window.dump(|what| match what {
            Dumped::Table { buckets } => {
                restored.restore_table(buckets as u64, is_first).unwrap();
                is_first = false;
            }
            Dumped::Entry { id, stamp } => {
                restored.check_at(id, restored.reading_of_stamp(stamp));
            }
        });
        restored.look_after_tables(true);
        for n in 0..60_000 {
            assert_eq!(restored.contains(digest(n), at), window.contains(digest(n), at), "{n}");
        }
        assert!((60_000..70_000).all(|n| !restored.contains(digest(n), at)));
        assert_eq!(restored.stats(at).evicted_live, 0);
    }

    #[test]
    fn coming_back_costs_no_ids_in_a_table_that_is_full() {
        let mut lost = 0;
        let seeds = long(5, 20);
        for seed in 0..seeds {
            let digester = crate::Digester::with_seed(seed);
            let digest = |n: u64| digester.digest(n.to_le_bytes());
            let new = || Window::with_growth(Duration::from_secs(100), 50_000, Some(1 << 20), false).unwrap();
            let (window, restored) = (new(), new());
            let at = Timestamp::from_secs(100);
            assert!((0..50_000).all(|n| window.check(digest(n), at) == crate::Outcome::Fresh));
            restored.look_after_tables(false);
            window.dump(|what| match what {
                Dumped::Table { buckets } => restored.restore_table(buckets as u64, true).unwrap(),
                Dumped::Entry { id, stamp } => {
                    restored.check_at(id, restored.reading_of_stamp(stamp));
                }
            });
            lost += restored.evicted_live();
        }
        // As many as when they come for the first time. (It was 16 of a million, or 20 seeds, when
        // ids were restored bucket by bucket.)
        assert!(lost <= 2, "{lost} of {} ids", seeds * 50_000);
    }
}
