//! Keeps threads together in stream time.

use super::workload::LEAD_TICKS_MAX;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The progress of each thread.
pub(super) struct Pace(Vec<Place>);

/// A thread's progress, alone in its cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Place(AtomicUsize);

impl Pace {
    pub fn new(threads: usize) -> Self {
        Pace((0..threads).map(|_| Place::default()).collect())
    }

    /// Reports that the thread has come to this tick, and waits until it may go on. A thread that
    /// waits costs throughput. One that runs ahead advances the time, and the ids of the others
    /// expire before they are redelivered.
    pub fn keep(&self, thread: usize, tick: usize) {
        // Release, for `is_ahead`: the checks before this tick have happened for a thread that is
        // let go by it, which may check the same ids.
        self.0[thread].0.store(tick, Ordering::Release);
        while self.is_ahead(tick) {
            std::thread::yield_now();
        }
    }

    fn is_ahead(&self, tick: usize) -> bool {
        // Acquire, for `keep`.
        let last = self.0.iter().map(|place| place.0.load(Ordering::Acquire)).min();
        last.is_some_and(|last| last.saturating_add(LEAD_TICKS_MAX) < tick)
    }

    /// Releases the threads that wait for this thread: none waits for it any more.
    pub fn leave(&self, thread: usize) {
        self.0[thread].0.store(usize::MAX, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_held_up_by_the_last_one_that_is_there() {
        let pace = Pace::new(3);
        assert!(!pace.is_ahead(LEAD_TICKS_MAX) && pace.is_ahead(1 + LEAD_TICKS_MAX));
        pace.keep(1, 5);
        pace.keep(2, 7);
        pace.leave(0);
        assert!(!pace.is_ahead(5 + LEAD_TICKS_MAX) && pace.is_ahead(6 + LEAD_TICKS_MAX));
        pace.leave(1);
        assert!(!pace.is_ahead(7 + LEAD_TICKS_MAX) && pace.is_ahead(8 + LEAD_TICKS_MAX));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| pace.keep(0, 8 + LEAD_TICKS_MAX));
            pace.keep(2, 8);
            // The test is that the wait ends.
            waits.join().expect("it does not panic");
        });
    }
}
