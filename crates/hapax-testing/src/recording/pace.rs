//! Threads that wait for each other, without the system if possible: so they go on at the same
//! moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The progress of each thread, and the moment at which all began.
#[derive(Debug)]
pub(crate) struct Pace(Vec<Progress>, Instant);

/// Alone in its cache lines: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Progress(AtomicU64);

impl Pace {
    pub(crate) fn new(threads: u16) -> Self {
        Pace((0..threads).map(|_| Progress::default()).collect(), Instant::now())
    }

    /// Sets the step at which all threads begin.
    pub(crate) fn begin(&self, step: u64) {
        // Relaxed: threads are started afterwards.
        self.0.iter().for_each(|progress| progress.0.store(step, Ordering::Relaxed));
    }

    pub(crate) fn origin(&self) -> Instant {
        self.1
    }

    pub(crate) fn member(&self, thread: usize) -> Member<'_> {
        Member { all: &self.0, own: &self.0[thread] }
    }
}

/// A thread's part in the pace. When it is dropped, the others wait for this thread no longer, even
/// if it has panicked.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    all: &'a [Progress],
    own: &'a Progress,
}

impl Member<'_> {
    /// Waits until every thread has come to a step, or has left.
    pub(crate) fn meet(&self, step: u64) {
        const LOOKS_BEFORE_YIELD: u32 = 200;
        // Release and Acquire: writes before threads meet come before reads afterwards.
        self.own.0.store(step, Ordering::Release);
        let mut looks = 0_u32;
        while self.all.iter().any(|other| other.0.load(Ordering::Acquire) < step) {
            looks += 1;
            if looks.is_multiple_of(LOOKS_BEFORE_YIELD) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.own.0.store(u64::MAX, Ordering::Release);
    }
}
