//! loom's atomics, accessed in such a way that loom finds all executions.
//!
//! loom 0.7 remembers one last access of an object, and checks whether the next write races with
//! that one. So a thread's own load hides all loads of other threads from its next write. Our
//! protocols consist of threads that load a word and then compare-and-swap it; of two such threads
//! loom tries only one order (tokio-rs/loom, issues 166 and 392; `model.rs` has a test that shows
//! it). Therefore each word has a *mark* for each thread, which is touched by the thread's loads of
//! the word, and by the other threads' writes. Marks are touched Relaxed, and by operations that
//! read the latest value: they order nothing, and have no values to choose from.

use super::Ordering;
use loom::sync::atomic::{AtomicU64 as Word, AtomicUsize as Mark};
use std::cell::Cell;

/// The most threads that a model runs at once.
const THREADS_MAX: usize = 3;

thread_local! {
    /// The number of threads: of loom's threads, that is, which all run on one.
    static THREADS: Cell<usize> = const { Cell::new(1) };
}

loom::thread_local! {
    static ME: Cell<usize> = Cell::new(0);
}

pub(crate) struct AtomicU64 {
    word: Word,
    marks: [Mark; THREADS_MAX],
}

impl Default for AtomicU64 {
    fn default() -> Self {
        Self::new(0)
    }
}

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        AtomicU64 { word: Word::new(value), marks: Default::default() }
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        if THREADS.get() > 1 {
            self.touch(ME.with(Cell::get));
        }
        self.word.load(order)
    }

    /// Stores by an operation that also reads: otherwise loom would let a thread that has stored
    /// and added to a word read what another had added before, which no order of modifications
    /// allows.
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.touch_others();
        self.word.swap(value, order);
    }

    pub(crate) fn compare_exchange(&self, old: u64, new: u64, ok: Ordering, failed: Ordering) -> Result<u64, u64> {
        self.touch_others();
        self.word.compare_exchange(old, new, ok, failed)
    }

    pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.touch_others();
        self.word.fetch_max(value, order)
    }

    pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.touch_others();
        self.word.fetch_add(value, order)
    }

    pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.touch_others();
        self.word.fetch_sub(value, order)
    }

    pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.touch_others();
        self.word.fetch_or(value, order)
    }

    pub(crate) fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.touch_others();
        self.word.fetch_and(value, order)
    }

    /// Touches the marks of other threads, before a write.
    fn touch_others(&self) {
        if THREADS.get() > 1 {
            let me = ME.with(Cell::get);
            (0..THREADS.get()).filter(|thread| *thread != me).for_each(|thread| self.touch(thread));
        }
    }

    fn touch(&self, thread: usize) {
        self.marks[thread].swap(0, Ordering::Relaxed);
    }
}

/// Begins a model, with one thread.
pub(crate) fn begin() {
    THREADS.set(1);
}

/// Runs threads at once, the first of them on this one.
pub(crate) fn run_at_once(threads: Vec<Box<dyn FnOnce() + Send>>) {
    assert!(threads.len() <= THREADS_MAX);
    THREADS.set(threads.len());
    let mut threads = threads.into_iter().enumerate();
    let (_, first) = threads.next().expect("a model has a thread");
    let spawn = |(me, thread): (usize, Box<dyn FnOnce() + Send>)| {
        loom::thread::spawn(move || {
            ME.with(|cell| cell.set(me));
            thread();
        })
    };
    let others: Vec<_> = threads.map(spawn).collect();
    first();
    others.into_iter().for_each(|other| other.join().unwrap());
    THREADS.set(1);
}
