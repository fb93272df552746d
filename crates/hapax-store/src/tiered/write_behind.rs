//! Completed ids that are not yet in the store: they are written behind, in order, a batch at a
//! time (by a task: `batching/writer.rs`).

use crate::sync::{Mutex, MutexGuard, lock};
use crate::{ErrorKind, Record, StoreError};
use hapax::seam::Digest;
use std::collections::VecDeque;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// Records that a node does not have yet.
pub(crate) struct WriteBehind {
    state: Mutex<State>,
    /// For records that are not durable yet.
    permits: Semaphore,
    max: usize,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Record, Digest)>,
    /// The number of records so far.
    pushed: u64,
    /// True if there is a writer.
    is_written: bool,
}

/// The progress of the writer.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// The number of records, from the first on, that are durable.
    done: u64,
    /// The number of failed tries; `error` is that of the last one.
    failures: u64,
    error: Option<StoreError>,
}

impl WriteBehind {
    pub(crate) fn new(max: usize) -> Self {
        WriteBehind {
            state: Mutex::default(),
            permits: Semaphore::new(max),
            max,
            progress: watch::Sender::new(Progress::default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic is done while it is held.
        lock(&self.state)
    }

    /// Returns the number of records that are not in the store yet.
    pub(crate) fn len(&self) -> u64 {
        let pushed = self.lock().pushed;
        pushed - self.progress.borrow().done
    }

    /// Returns the largest number of ids that can wait for permits at a time.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn close(&self) {
        self.permits.close();
    }

    /// Returns permits for this many ids, if there are enough at once.
    pub(crate) fn try_permits(&self, ids: usize) -> Option<SemaphorePermit<'_>> {
        self.permits.try_acquire_many(ids as u32).ok()
    }

    /// Waits for permits for this many ids, before any caller is told that they are fresh.
    pub(crate) async fn permits(&self, ids: usize) -> Result<SemaphorePermit<'_>, StoreError> {
        self.permits
            .acquire_many(ids as u32)
            .await
            .map_err(|_| StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down"))
    }

    /// Adds records, which are written in this order. Returns true if a writer must be started.
    pub(crate) fn push(
        &self,
        records: impl IntoIterator<Item = (Record, Digest)>,
        mut permits: SemaphorePermit<'_>,
    ) -> bool {
        let mut state = self.lock();
        let before = state.queue.len();
        state.queue.extend(records);
        let added = state.queue.len() - before;
        if added == 0 {
            return false;
        }
        state.pushed += added as u64;
        let starts = !std::mem::replace(&mut state.is_written, true);
        drop(state);
        debug_assert!(added <= permits.num_permits(), "a record is let in by its permit");
        if let Some(taken) = permits.split(added) {
            taken.forget();
        }
        starts
    }

    /// Waits until all records that were pushed before are durable. A try that fails meanwhile ends
    /// the wait; the failed records are tried again all the same.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let target = self.lock().pushed;
        let mut progress = self.progress.subscribe();
        let failures = progress.borrow().failures;
        let now = progress
            .wait_for(|now| now.done >= target || now.failures > failures)
            .await
            .map_err(|_| StoreError::new(ErrorKind::Unavailable, "hapax", "the engine has ended"))?;
        match &now.error {
            Some(error) if now.done < target => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Takes the next records to write, up to `most`. `None` if there are none: then the writer
    /// must end, and the next records need another one.
    pub(crate) fn take(&self, most: usize) -> Option<Vec<(Record, Digest)>> {
        let mut state = self.lock();
        let most = most.min(state.queue.len());
        if most == 0 {
            state.is_written = false;
            return None;
        }
        Some(state.queue.drain(..most).collect())
    }

    /// Notes that of the records that were taken so many are durable, and these are not: they are
    /// first next time.
    pub(crate) fn wrote(&self, done: usize, left: Vec<(Record, Digest)>, error: Option<StoreError>) {
        self.put_back(left);
        self.permits.add_permits(done);
        self.progress.send_modify(|progress| {
            progress.done += done as u64;
            if let Some(error) = error {
                progress.failures += 1;
                progress.error = Some(error);
            }
        });
    }

    /// Puts back the records of a writer that could not go on.
    pub(crate) fn abandon(&self, batch: Vec<(Record, Digest)>) {
        self.put_back(batch);
        self.lock().is_written = false;
        self.progress.send_modify(|progress| {
            progress.failures += 1;
            let ended = "the runtime that writes to the store has ended, or the store has panicked";
            progress.error = Some(StoreError::new(ErrorKind::Unavailable, "hapax", ended));
        });
    }

    fn put_back(&self, records: Vec<(Record, Digest)>) {
        let mut state = self.lock();
        records.into_iter().rev().for_each(|record| state.queue.push_front(record));
    }
}
