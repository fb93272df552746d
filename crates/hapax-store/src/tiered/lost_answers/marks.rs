//! The marks of an engine whose answers were lost, and how it understands marks that it meets.

use super::doubt::{self, Doubts, Pace};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::tiered::breaker::back_off;
use crate::tiered::random::Random;
use crate::{Mark, Marked};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The time for a caller that asks again at once, before its mark is taken back.
const FIRST: Duration = Duration::from_millis(50);

/// The marks of an engine that no caller was told of, and what it takes to recognize them.
pub(crate) struct LostMarks {
    doubts: Mutex<Doubts>,
    /// The key by which this engine recognizes its attempts' numbers.
    own: u64,
    random: Arc<Random>,
    /// The time that a caller is told to wait for a mark that is being taken back.
    timeout: Duration,
    /// The time for which a mark of another engine is in doubt.
    in_doubt: Duration,
    pub(crate) pace: Pace,
    /// Tells the task that takes marks back that there are some.
    wake: mpsc::Sender<()>,
}

impl LostMarks {
    /// Returns the state of an engine whose attempts are numbered under the key `own`, and the
    /// receiver that tells when there are marks to take back.
    pub(crate) fn new(
        own: u64,
        random: Arc<Random>,
        timeout: Duration,
        in_doubt: Duration,
        pace: Pace,
    ) -> (Self, mpsc::Receiver<()>) {
        let (wake, woken) = mpsc::channel(1);
        (LostMarks { doubts: Mutex::default(), own, random, timeout, in_doubt, pace, wake }, woken)
    }

    /// Returns a number that no other attempt has: 63 bits.
    pub(crate) fn number(&self) -> u64 {
        doubt::tagged(self.random.next(), self.own)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Doubts> {
        // Nothing that can panic is done while it is held.
        lock(&self.doubts)
    }

    /// Returns the answer to a mark as this engine understands it: a young mark of another engine
    /// is in doubt, and so is one of its own that is to be taken back.
    pub(crate) fn doubted(&self, mark: &Mark, marked: Marked) -> Marked {
        let Marked::Duplicate { expires_in, attempt: Some(attempt) } = marked else { return marked };
        let left = if doubt::is_own(attempt, self.own) {
            self.lock().contains(attempt).then_some(self.timeout)
        } else {
            doubt::left(self.in_doubt, mark.retention, expires_in)
        };
        left.map_or(marked, |lease_left| Marked::InProgress { lease_left })
    }

    /// Returns the attempt of this engine that has made a mark which is in doubt.
    pub(crate) fn met(&self, marked: &Marked) -> Option<u64> {
        let Marked::Duplicate { attempt: Some(attempt), .. } = marked else { return None };
        (doubt::is_own(*attempt, self.own) && self.lock().contains(*attempt)).then_some(*attempt)
    }

    /// Notes that the answer to a mark was lost: it is taken back, unless this process asks for it
    /// again first. If the store may have been asked to `undo` it already, it cannot.
    pub(crate) fn insert(&self, mark: &Mark, undo: bool) {
        let now = Instant::now();
        let due = now + FIRST + back_off(2, self.random.next());
        let mut doubts = self.lock();
        doubts.insert(mark.attempt, mark.key.clone(), now, due, mark.retention);
        if undo {
            doubts.asks(mark.attempt);
        }
        drop(doubts);
        // If the channel is full, the task has been told already.
        let _ = self.wake.try_send(());
    }
}
