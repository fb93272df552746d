//! The true answers, exactly.

use super::{LEAD_TICKS_MAX, WINDOW_TICKS};

/// What is true of an id when it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Truth {
    /// Never seen before: fresh.
    New,
    /// Fresh again: it was last accepted at least a window and two ticks ago.
    Expired,
    /// It was accepted less than a window ago.
    Duplicate,
    /// In between, where a strategy may answer either way; or it is not certain when the id was last accepted, as a strategy could
    /// answer either way then.
    Undecided,
}

impl Truth {
    /// Whether the right answer is that it is fresh.
    pub fn is_fresh(self) -> bool {
        matches!(self, Truth::New | Truth::Expired)
    }
}

/// When an answer is certain, in ticks since an id was accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Certain {
    /// Below this, it is a duplicate.
    pub duplicate_below: usize,
    /// From this on, it is fresh.
    pub fresh_from: usize,
}

impl Certain {
    /// Threads disagree about the time by as much as one may be ahead of the others.
    pub fn with_threads(threads: usize) -> Self {
        let lead = if threads > 1 { LEAD_TICKS_MAX } else { 0 };
        Certain { duplicate_below: WINDOW_TICKS - lead, fresh_from: WINDOW_TICKS + 2 + lead }
    }

    /// What is true of an id that was certainly accepted so many ticks ago.
    pub fn after(self, ticks: usize) -> Truth {
        match ticks {
            ticks if ticks < self.duplicate_below => Truth::Duplicate,
            ticks if ticks < self.fresh_from => Truth::Undecided,
            _ => Truth::Expired,
        }
    }
}
