//! Keeps threads together in stream time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How far each thread has come.
pub struct Pace(Vec<Place>);

/// Alone in its cache lines.
#[repr(align(128))]
struct Place(AtomicUsize);

/// Ticks by which a thread may be ahead of the last one. A thread that waits costs throughput; one that runs away takes the time with it,
/// and the ids of the others expire before they are redelivered.
const LEAD_TICKS_MAX: usize = 10;

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

    /// The thread has come to this tick; waits until it may go on.
    pub fn keep(&self, thread: usize, tick: usize) {
        self.enter(thread, tick);
        let last = || self.0.iter().map(|place| place.0.load(Ordering::Relaxed)).min();
        while last().is_some_and(|last| last.saturating_add(LEAD_TICKS_MAX) < tick) {
            std::thread::yield_now();
        }
    }

    /// Nobody waits for this thread any more.
    pub fn leave(&self, thread: usize) {
        self.enter(thread, AWAY);
    }
}
