//! The attempts of an engine with an unknown outcome, and what memory may learn in spite of them.

use super::unresolved::Unresolved;
use crate::sync::{Mutex, MutexGuard, Ordering, StdAtomicU64, fence, lock};
use hapax::seam::{Digest, Memory};

/// Attempts whose outcome is unknown, for all threads.
#[derive(Debug, Default)]
pub(crate) struct LostAttempts {
    unresolved: Mutex<Unresolved>,
    /// Their number, so that nobody locks where there are none.
    count: StdAtomicU64,
}

/// The attempts with an unknown outcome, locked. Their number is published when this is dropped.
pub(crate) struct Locked<'a> {
    unresolved: MutexGuard<'a, Unresolved>,
    count: &'a StdAtomicU64,
}

impl Locked<'_> {
    /// Takes the number of an attempt at this id, if there is one.
    pub(crate) fn take(&mut self, id: Digest) -> Option<u64> {
        self.unresolved.take(id)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Relaxed: pairs with nothing; see `LostAttempts::lock`.
        self.count.store(self.unresolved.len() as u64, Ordering::Relaxed);
    }
}

impl LostAttempts {
    /// Returns the attempts with an unknown outcome, if there are any.
    pub(crate) fn lock(&self) -> Option<Locked<'_>> {
        // Relaxed: a caller that was told of a lost answer has seen it counted, and others do not
        // know of it.
        match self.count.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.locked()),
        }
    }

    fn locked(&self) -> Locked<'_> {
        Locked { unresolved: lock(&self.unresolved), count: &self.count }
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.unresolved).len()
    }

    /// Remembers attempts with an unknown outcome.
    pub(crate) fn remember(&self, attempts: impl IntoIterator<Item = (Digest, u64)>) {
        let mut attempts = attempts.into_iter().peekable();
        if attempts.peek().is_some() {
            let mut locked = self.locked();
            attempts.for_each(|(id, attempt)| locked.unresolved.insert(id, attempt));
        }
    }

    /// Teaches memory that these ids are done, except those with an attempt here whose answer was
    /// lost: a caller that asks again must ask the store.
    pub(crate) fn teach(&self, memory: &Memory, ids: &[Digest]) {
        if !ids.is_empty() {
            memory.learn(ids);
            self.doubt(memory, ids.iter().copied());
        }
    }

    /// Makes memory forget those of these ids that have attempts with an unknown outcome: it may
    /// have learned of them from callers that have met the effect of such an attempt.
    pub(crate) fn doubt(&self, memory: &Memory, mut ids: impl Iterator<Item = Digest>) {
        let Some(first) = ids.next() else { return };
        // SeqCst: one thread remembers an attempt and comes here, another has taught memory and
        // comes here. Either that one sees the attempt, or this one sees what memory was taught.
        fence(Ordering::SeqCst);
        if let Some(locked) = self.lock() {
            for id in std::iter::once(first).chain(ids).filter(|id| locked.unresolved.contains(*id)) {
                memory.forget(id);
            }
        }
    }
}
