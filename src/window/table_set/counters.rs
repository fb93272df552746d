//! The counters of a window's rare events, counted where they happen.

use crate::sync::{Ordering, StdAtomicU64};
use crate::window::bits::tick::{GRACE, WINDOW_TICKS_MAX};
use crate::window::protocol::bucket_memory::Lost;

/// Counters of rare events, and the age of the youngest id that had to go before its time.
pub(crate) struct Counters {
    evicted_live: StdAtomicU64,
    repaired_buckets: StdAtomicU64,
    /// For this window of time and the one before: its number, and the age of the youngest id that
    /// was evicted in it.
    youngest: [StdAtomicU64; 2],
    window_ticks: u64,
}

/// The number of bits for the age of an entry that must be kept, which fits beside the number of
/// the window of time.
const AGE_BITS: u32 = 8;
const _: () = assert!(WINDOW_TICKS_MAX + GRACE < 1 << AGE_BITS);

impl Counters {
    pub(crate) fn new(window_ticks: u64) -> Self {
        Counters {
            evicted_live: StdAtomicU64::new(0),
            repaired_buckets: StdAtomicU64::new(0),
            youngest: Default::default(),
            window_ticks,
        }
    }

    pub(crate) fn evicted(&self, lost: Lost) {
        self.evicted_many(1, lost);
    }

    /// Counts many evictions at once, of which `lost` was the youngest.
    #[cold]
    pub(crate) fn evicted_many(&self, entries: u64, lost: Lost) {
        self.evicted_live.fetch_add(entries, Ordering::Relaxed);
        let epoch = self.epoch(lost.now);
        let mine = epoch << AGE_BITS | lost.age_ticks;
        let _ = self.youngest[(epoch % 2) as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            // Within one window of time, the smaller word has the younger age.
            (seen >> AGE_BITS < epoch || (seen >> AGE_BITS == epoch && mine < seen)).then_some(mine)
        });
    }

    pub(crate) fn repaired(&self) {
        self.repaired_buckets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn evicted_live(&self) -> u64 {
        self.evicted_live.load(Ordering::Relaxed)
    }

    pub(crate) fn repaired_buckets(&self) -> u64 {
        self.repaired_buckets.load(Ordering::Relaxed)
    }

    /// Returns the effective window: no id younger than this was evicted for a window's time.
    pub(crate) fn effective_window_ticks(&self, now: u64) -> u64 {
        let recent = self.youngest.iter().map(|youngest| youngest.load(Ordering::Relaxed));
        recent
            .filter(|seen| seen >> AGE_BITS != 0 && (seen >> AGE_BITS) + 1 >= self.epoch(now))
            .map(|seen| seen & ((1 << AGE_BITS) - 1))
            .fold(self.window_ticks, u64::min)
    }

    /// Returns the number of the window of time that a tick is in, counted from 1.
    fn epoch(&self, tick: u64) -> u64 {
        (tick / self.window_ticks + 1).min(u64::MAX >> AGE_BITS)
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn the_effective_window_is_that_of_the_last_two_windows() {
        let counters = Counters::new(100);
        assert_eq!(counters.effective_window_ticks(0), 100);
        counters.evicted(Lost { age_ticks: 70, now: 10 });
        counters.evicted(Lost { age_ticks: 60, now: 20 });
        counters.evicted(Lost { age_ticks: 80, now: 30 });
        assert_eq!(counters.effective_window_ticks(30), 60);
        counters.evicted(Lost { age_ticks: 90, now: 130 });
        assert_eq!(counters.effective_window_ticks(130), 60);
        assert_eq!(counters.effective_window_ticks(199), 60);
        assert_eq!(counters.effective_window_ticks(200), 90);
        counters.evicted(Lost { age_ticks: 101, now: 250 });
        assert_eq!(counters.effective_window_ticks(301), 100);
        assert_eq!(counters.effective_window_ticks(100_000), 100);
        assert_eq!(counters.evicted_live(), 5);
    }

    #[test]
    fn many_are_evicted_at_once_and_windows_of_time_replace_each_other() {
        let counters = Counters::new(100);
        counters.evicted_many(40, Lost { age_ticks: 50, now: 10 });
        counters.evicted(Lost { age_ticks: 90, now: 210 });
        assert_eq!(counters.effective_window_ticks(210), 90);
        counters.evicted(Lost { age_ticks: 80, now: u64::MAX });
        assert_eq!(counters.effective_window_ticks(u64::MAX), 80);
        assert_eq!(counters.evicted_live(), 42);
    }

    #[test]
    fn repairs_are_counted() {
        let counters = Counters::new(100);
        (0..3).for_each(|_| counters.repaired());
        assert_eq!(counters.repaired_buckets(), 3);
    }
}
