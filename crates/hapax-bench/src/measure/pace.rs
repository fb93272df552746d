//! Keeps threads together in stream time.

use super::workload::LEAD_TICKS_MAX;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How far each thread has come.
pub(super) struct Pace(Vec<Place>);

/// Alone in its cache lines.
#[repr(align(128))]
struct Place(AtomicUsize);

/// Where a thread is that nobody needs to wait for.
const AWAY: usize = usize::MAX;

impl Pace {
    pub fn new(threads: usize) -> Self {
        Pace((0..threads).map(|_| Place(AtomicUsize::new(AWAY))).collect())
    }

    /// Whoever gets too far ahead of this thread waits for it from now on.
    pub fn enter(&self, thread: usize, tick: usize) {
        self.0[thread].0.store(tick, Ordering::Relaxed);
    }

    /// The thread has come to this tick; waits until it may go on. A thread that waits costs throughput; one that runs
    /// away takes the time with it, and the ids of the others expire before they are redelivered. Answers whether it
    /// had to wait.
    pub fn keep(&self, thread: usize, tick: usize) -> bool {
        self.enter(thread, tick);
        let mut waited = false;
        while self.is_ahead(tick) {
            waited = true;
            std::thread::yield_now();
        }
        waited
    }

    fn is_ahead(&self, tick: usize) -> bool {
        let last = self.0.iter().map(|place| place.0.load(Ordering::Relaxed)).min();
        last.is_some_and(|last| last.saturating_add(LEAD_TICKS_MAX) < tick)
    }

    /// Nobody waits for this thread any more.
    pub fn leave(&self, thread: usize) {
        self.enter(thread, AWAY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_held_up_by_the_last_one_that_is_there() {
        let pace = Pace::new(3);
        assert!(!pace.keep(0, 1_000), "alone");
        pace.enter(1, 5);
        pace.enter(2, 7);
        assert!(!pace.is_ahead(5 + LEAD_TICKS_MAX) && pace.is_ahead(6 + LEAD_TICKS_MAX));
        pace.leave(1);
        assert!(!pace.is_ahead(7 + LEAD_TICKS_MAX) && pace.is_ahead(8 + LEAD_TICKS_MAX));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| pace.keep(0, 8 + LEAD_TICKS_MAX));
            pace.enter(2, 8);
            // Whether it had to wait depends on who is faster; that it ends does not.
            let _ = waits.join().expect("it does not panic");
        });
    }
}
