//! A queue of output that was written and not yet taken by its reader. Pure.

use std::collections::VecDeque;

/// Things to be done, in order, each once the output has been taken up to its end.
pub struct Pending<T> {
    waiting: VecDeque<(u64, T)>,
}

/// The largest number of entries: more than a pipe holds, if each has something to print; a limit
/// on memory otherwise.
const WAITING_MAX: usize = 64;

impl<T> Pending<T> {
    pub fn new() -> Self {
        Pending { waiting: VecDeque::new() }
    }

    /// Adds an entry that ends there in the output; never before the last.
    pub fn push(&mut self, end: u64, what: T) {
        debug_assert!(self.waiting.back().is_none_or(|(last, _)| *last <= end), "entries are in order");
        self.waiting.push_back((end, what));
    }

    /// Returns the next entry to be done, if the output was taken that far.
    pub fn take(&mut self, taken: u64) -> Option<T> {
        let (end, _) = self.waiting.front()?;
        if *end <= taken { self.waiting.pop_front().map(|(_, what)| what) } else { None }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns true if no more are to be added before some are done.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_no_earlier_than_taken() {
        let mut pending = Pending::new();
        for (end, what) in [(10, 'a'), (10, 'b'), (15, 'c')] {
            pending.push(end, what);
        }
        assert_eq!(pending.take(9), None);
        assert_eq!((pending.take(14), pending.take(14), pending.take(14)), (Some('a'), Some('b'), None));
        assert!(!pending.is_empty() && !pending.is_full());
        assert_eq!((pending.take(15), pending.take(15)), (Some('c'), None));
        (0..WAITING_MAX as u64).for_each(|end| pending.push(end, 'd'));
        assert!(pending.is_full());
    }
}
