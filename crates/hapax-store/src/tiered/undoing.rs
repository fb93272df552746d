//! Takes back marks that no caller was told to be fresh: in the background, as soon as the store
//! answers.

use super::breaker::back_off;
use super::doubt::{self, Doubts};
use super::inner::Inner;
use super::operation::Unmarks;
use crate::sync::MutexGuard;
use crate::{Mark, Marked, RecordKey, StoreError, Unmark, Unmarked};
use hapax::tier::Memory;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// The time for a caller that asks again at once, before its mark is taken back.
const FIRST: Duration = Duration::from_millis(50);
/// Marks that are taken back at a time.
const BATCH: usize = 1_024;

impl Inner {
    pub(super) fn doubts(&self) -> MutexGuard<'_, Doubts> {
        // Nothing that can panic is done while it is held.
        self.doubts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the answer to a mark as this engine understands it: a young mark of another engine
    /// is in doubt, and so is one of its own that is to be taken back.
    pub(super) fn doubted(&self, mark: &Mark, marked: Marked) -> Marked {
        let Marked::Duplicate { expires_in, attempt: Some(attempt) } = marked else { return marked };
        let left = match doubt::is_own(attempt, self.own) {
            true => self.doubts().contains(attempt).then_some(self.calls.timeout),
            false => doubt::left(self.calls.in_doubt, mark.retention, expires_in),
        };
        left.map_or(marked, |lease_left| Marked::InProgress { lease_left })
    }

    /// Returns the attempt of this engine that has made a mark which is in doubt.
    pub(super) fn met(&self, marked: &Marked) -> Option<u64> {
        let Marked::Duplicate { attempt: Some(attempt), .. } = marked else { return None };
        (doubt::is_own(*attempt, self.own) && self.doubts().contains(*attempt)).then_some(*attempt)
    }

    /// Notes that the answer to a mark was lost: it is taken back, unless this process asks for it
    /// again first. If the store may have been asked to `undo` it already, it cannot.
    pub(super) fn lost(&self, mark: &Mark, undo: bool) {
        let now = Instant::now();
        let due = now + FIRST + back_off(2, self.random());
        let mut doubts = self.doubts();
        doubts.insert(mark.attempt, mark.key.clone(), now, due, mark.retention);
        if undo {
            doubts.asks(mark.attempt);
        }
        drop(doubts);
        // If there is no room, it has been told already.
        let _ = self.lost.try_send(());
    }

    /// Takes back marks that are known to be there. Returns true for each that is gone.
    pub(super) async fn unmark(&self, marks: impl Iterator<Item = &Mark>) -> Vec<bool> {
        let asked: Vec<Unmark> = marks.map(|mark| Unmark { key: mark.key.clone(), attempt: mark.attempt }).collect();
        let Ok(answers) = self.store.unmark(&asked).await else { return Vec::new() };
        let is_unknown = |answer: &Result<Unmarked, StoreError>| matches!(answer, Ok(Unmarked::Unknown));
        let unknown = asked.iter().zip(&answers).filter(|(_, answer)| is_unknown(answer));
        let keys: Vec<RecordKey> = unknown.map(|(unmark, _)| unmark.key.clone()).collect();
        // The store cannot tell whose marks these are, but they were this engine's a moment ago.
        let mut forgotten = match keys.is_empty() {
            true => Vec::new(),
            false => self.store.forget(&keys).await.unwrap_or_default(),
        }
        .into_iter();
        let is_gone = |answer| match answer {
            Ok(Unmarked::Done | Unmarked::NotThere) => true,
            Ok(Unmarked::Unknown) => forgotten.next().is_some_and(|forgotten| forgotten.is_ok()),
            Err(_) => false,
        };
        answers.into_iter().map(is_gone).collect()
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
            // The last handle of the engine is gone.
            Ok(None) => return,
            Err(_) => {}
        }
        let Some(inner) = engine.upgrade() else { return };
        tries = if inner.take_back_due(&memory, tries).await { 0 } else { (tries + 1).min(16) };
    }
}

impl Inner {
    /// Takes back the marks that are due. Returns true if the store has answered about all of them.
    async fn take_back_due(self: &Arc<Self>, memory: &Arc<Memory>, tries: u32) -> bool {
        let asked_at = Instant::now();
        let due = self.doubts().take_due(asked_at, BATCH);
        let asked = due.iter().map(|(attempt, key)| {
            let unmark = Unmark { key: key.clone(), attempt: *attempt };
            (unmark, self.id(memory, key))
        });
        let answers: Vec<Result<Unmarked, StoreError>> = self.ask::<Unmarks>(memory, asked.collect()).await;
        let again = Instant::now() + back_off(tries, self.random());
        // A request that was given up has been carried out by then, or never will be.
        let (settled, mut all) = (self.patience(), true);
        let mut doubts = self.doubts();
        for ((attempt, _), answer) in due.iter().zip(answers) {
            match answer {
                Ok(Unmarked::Done | Unmarked::NotThere) => doubts.answered(*attempt, asked_at, settled),
                // It keeps no attempts, and its documentation says so.
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
