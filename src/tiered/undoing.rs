//! Takes marks back of which nobody was told that they are fresh: in the background, as soon as the
//! store answers.

use super::breaker::back_off;
use super::doubt::{self, Doubts};
use super::inner::Inner;
use super::memory::Memory;
use super::operation::Unmarks;
use crate::store::{Mark, Marked, RecordKey, StoreError, Unmark, Unmarked};
use crate::sync::MutexGuard;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// How long a caller that asks again at once has until its mark is taken back.
const FIRST: Duration = Duration::from_millis(50);
/// Marks that are taken back at a time.
const BATCH: usize = 1_024;

impl Inner {
    pub(super) fn doubts(&self) -> MutexGuard<'_, Doubts> {
        // Nothing that can panic is done while it is held.
        self.doubts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How long a store may be busy with what was given up: by then it is done, or never will be.
    fn settled(&self) -> Duration {
        self.calls.timeout.saturating_mul(self.calls.retries + 1)
    }

    /// What the answer to a mark means to this engine: a young mark of another one is in doubt, and
    /// so is one of its own that is to be taken back.
    pub(super) fn doubted(&self, mark: &Mark, marked: Marked) -> Marked {
        let Marked::Duplicate { expires_in, attempt: Some(attempt) } = marked else { return marked };
        let left = match doubt::is_own(attempt, self.own) {
            true => self.doubts().contains(attempt).then_some(self.calls.timeout),
            false => doubt::left(self.calls.in_doubt, mark.retention, expires_in),
        };
        left.map_or(marked, |lease_left| Marked::InProgress { lease_left })
    }

    /// The answers to marks were lost: they are taken back, unless this process asks for them again.
    pub(super) fn lost<'m>(&self, marks: impl Iterator<Item = &'m Mark>) {
        let now = Instant::now();
        let due = now + FIRST + back_off(2, self.random());
        let mut doubts = self.doubts();
        marks.for_each(|mark| doubts.insert(mark.attempt, mark.key.clone(), now, due, mark.retention));
        drop(doubts);
        // If there is no room, it has been told already.
        let _ = self.lost.try_send(());
    }

    /// Takes marks back that are known to be there. What the store cannot do now is tried again.
    pub(super) async fn unmark(&self, marks: &[Mark]) {
        // First, so that nothing is forgotten if this is given up on its way.
        self.lost(marks.iter());
        marks.iter().for_each(|mark| self.doubts().asks(mark.attempt));
        let asked = marks.iter().map(|mark| Unmark { key: mark.key.clone(), attempt: mark.attempt });
        let Ok(answers) = self.store.unmark(&asked.collect::<Vec<_>>()).await else { return };
        let mut untold = Vec::new();
        for (mark, answer) in marks.iter().zip(answers) {
            match answer {
                Ok(Unmarked::Done | Unmarked::NotThere) => self.doubts().remove(mark.attempt),
                Ok(Unmarked::Unknown) => untold.push(mark),
                Err(_) => {}
            }
        }
        if !untold.is_empty() {
            // Whose mark it is the store cannot tell, but it was this one a moment ago.
            let keys: Vec<RecordKey> = untold.iter().map(|mark| mark.key.clone()).collect();
            let _ = self.store.forget(&keys).await;
            untold.iter().for_each(|mark| self.doubts().remove(mark.attempt));
        }
    }
}

/// Starts to take marks back whenever some are [lost](Inner::lost). It ends when the last handle of
/// the engine is dropped.
pub(super) fn start(inner: &Arc<Inner>, memory: Arc<Memory>, lost: mpsc::Receiver<()>) {
    inner.runtime.spawn(take_back(Arc::downgrade(inner), memory, lost));
}

async fn take_back(engine: Weak<Inner>, memory: Arc<Memory>, mut lost: mpsc::Receiver<()>) {
    let mut tries = 0;
    while let Some(due) = engine.upgrade().map(|inner| inner.doubts().next_due()) {
        let more = match due {
            Some(due) => timeout_at(due, lost.recv()).await,
            None => Ok(lost.recv().await),
        };
        match more {
            Ok(Some(())) => continue,
            // Nobody has the engine any more.
            Ok(None) => return,
            Err(_) => {}
        }
        let Some(inner) = engine.upgrade() else { return };
        tries = if inner.take_back_due(&memory, tries).await { 0 } else { (tries + 1).min(16) };
    }
}

impl Inner {
    /// Takes back what is due; whether the store has answered about all of it.
    async fn take_back_due(self: &Arc<Self>, memory: &Arc<Memory>, tries: u32) -> bool {
        let asked_at = Instant::now();
        let due = self.doubts().take_due(asked_at, BATCH);
        let asked = due.iter().map(|(attempt, key)| {
            let unmark = Unmark { key: key.clone(), attempt: *attempt };
            (unmark, self.id(memory, key))
        });
        let answers: Vec<Result<Unmarked, StoreError>> = self.ask::<Unmarks>(memory, asked.collect()).await;
        let again = Instant::now() + back_off(tries, self.random());
        let (settled, mut all) = (self.settled(), true);
        let mut doubts = self.doubts();
        for ((attempt, _), answer) in due.iter().zip(answers) {
            match answer {
                Ok(Unmarked::Done | Unmarked::NotThere) => doubts.answered(*attempt, asked_at, settled),
                // It keeps no attempts, and its page says so.
                Ok(Unmarked::Unknown) => doubts.remove(*attempt),
                Err(_) => {
                    doubts.failed(*attempt, again);
                    all = false;
                }
            }
        }
        all
    }
}
