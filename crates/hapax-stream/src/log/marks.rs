//! Marks of messages that are being handled: one that is dropped before its message is done is
//! taken back, however that comes about.

use hapax::{Dedup, Forgotten};
use hapax_store::sync::{Ordering, StdAtomicU64};
use std::sync::Arc;

/// The engine that has the marks.
pub(crate) struct Marks {
    pub(crate) engine: Dedup,
    /// The number of marks that could not be taken back: the history cannot forget.
    stuck: StdAtomicU64,
}

impl Marks {
    pub(crate) fn new(engine: Dedup) -> Self {
        Marks { engine, stuck: StdAtomicU64::new(0) }
    }

    /// Returns the number of marks that could not be taken back.
    pub(crate) fn stuck(&self) -> u64 {
        // Relaxed: a counter that the task itself, or the one before it, has raised.
        self.stuck.load(Ordering::Relaxed)
    }
}

/// The mark of a message.
pub(crate) struct Mark {
    marks: Arc<Marks>,
    id: Vec<u8>,
    is_done: bool,
}

impl Mark {
    pub(crate) fn new(marks: &Arc<Marks>, id: Vec<u8>) -> Self {
        Mark { marks: Arc::clone(marks), id, is_done: false }
    }

    /// Takes the mark back: its message is put aside, and not done. (A history cannot forget, and
    /// may take a copy that is sent anew for a duplicate.)
    pub(crate) fn put_aside(mut self) {
        self.is_done = true;
        self.marks.engine.forget(&self.id);
    }

    /// Keeps the mark: its message is done.
    pub(crate) fn keep(mut self) {
        self.is_done = true;
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.is_done && self.marks.engine.forget(&self.id) != Forgotten::Entirely {
            self.marks.stuck.fetch_add(1, Ordering::Relaxed);
        }
    }
}
