//! Completed ids that are not yet in the store: written behind, in order, a batch at a time.

use super::inner::Inner;
use super::nodes::Node;
use super::operation::Records;
use crate::sync::{Mutex, MutexGuard};
use crate::{ErrorKind, Record, StoreError};
use hapax::Digest;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// Records that a node does not have yet.
pub(super) struct Behind {
    state: Mutex<State>,
    room: Semaphore,
    max: usize,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Record, Digest)>,
    /// The number of records so far.
    pushed: u64,
    runs: bool,
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

impl Behind {
    pub(super) fn new(max: usize) -> Self {
        Behind {
            state: Mutex::default(),
            room: Semaphore::new(max),
            max,
            progress: watch::Sender::new(Progress::default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic is done while it is held.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the number of records that are not in the store yet.
    pub(super) fn len(&self) -> u64 {
        let pushed = self.lock().pushed;
        pushed - self.progress.borrow().done
    }

    /// Returns the largest number of ids that can wait for room at a time.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn close(&self) {
        self.room.close();
    }

    /// Returns room for this many ids, if there is some at once.
    pub(super) fn try_room(&self, ids: usize) -> Option<SemaphorePermit<'_>> {
        self.room.try_acquire_many(ids as u32).ok()
    }

    /// Waits for room for this many ids, before any caller is told that they are fresh.
    pub(super) async fn room(&self, ids: usize) -> Result<SemaphorePermit<'_>, StoreError> {
        self.room
            .acquire_many(ids as u32)
            .await
            .map_err(|_| StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down"))
    }

    /// Adds records. They are written in this order.
    pub(super) fn push(
        &self,
        inner: &Arc<Inner>,
        node: u32,
        records: impl IntoIterator<Item = (Record, Digest)>,
        mut room: SemaphorePermit<'_>,
    ) {
        let mut state = self.lock();
        let before = state.queue.len();
        state.queue.extend(records);
        let added = state.queue.len() - before;
        if added == 0 {
            return;
        }
        state.pushed += added as u64;
        let starts = !std::mem::replace(&mut state.runs, true);
        drop(state);
        if let Some(taken) = room.split(added) {
            taken.forget();
        }
        if starts {
            start(inner, node);
        }
    }

    /// Waits until all records that were pushed before are durable. A try that fails meanwhile ends
    /// the wait; the failed records are tried again all the same.
    pub(super) async fn settle(&self) -> Result<(), StoreError> {
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

    fn take(&self, most: usize) -> Option<Vec<(Record, Digest)>> {
        let mut state = self.lock();
        let most = most.min(state.queue.len());
        if most == 0 {
            state.runs = false;
            return None;
        }
        Some(state.queue.drain(..most).collect())
    }

    /// Puts back the records that could not be written, to be first next time.
    fn put_back(&self, records: Vec<(Record, Digest)>) {
        let mut state = self.lock();
        records.into_iter().rev().for_each(|record| state.queue.push_front(record));
    }
}

/// A task that writes until all is written. If it is dropped (the runtime ends, the store panics),
/// the batch under way is put back.
struct Writer {
    inner: Arc<Inner>,
    /// The node that it writes to.
    node: u32,
    batch: Vec<(Record, Digest)>,
    runs: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.runs {
            let batch = std::mem::take(&mut self.batch);
            let behind = &self.node().behind;
            behind.put_back(batch);
            behind.lock().runs = false;
            behind.progress.send_modify(|progress| {
                progress.failures += 1;
                let ended = "the runtime that writes to the store has ended, or the store has panicked";
                progress.error = Some(StoreError::new(ErrorKind::Unavailable, "hapax", ended));
            });
        }
    }
}

fn start(inner: &Arc<Inner>, node: u32) {
    let mut writer = Writer { inner: Arc::clone(inner), node, batch: Vec::new(), runs: true };
    inner.runtime.spawn(async move {
        // Lets tasks that are ready to check go first.
        tokio::task::yield_now().await;
        let limits = writer.inner.store.limits();
        let mut tries = 0;
        loop {
            match writer.node().behind.take(limits.batch * limits.under_way) {
                Some(batch) => writer.batch = batch,
                None => return writer.stop(),
            }
            match writer.write(limits.batch).await {
                true => tries = 0,
                false => {
                    tokio::time::sleep(super::breaker::back_off(tries, writer.inner.random())).await;
                    tries = (tries + 1).min(16);
                }
            }
        }
    });
}

impl Writer {
    fn node(&self) -> &Node {
        self.inner.nodes.node(self.node)
    }

    /// Notes that nothing is left; the queue has been told.
    fn stop(&mut self) {
        self.runs = false;
    }

    /// Writes the batch that it has taken. Returns true if all of it was written.
    async fn write(&mut self, batch: usize) -> bool {
        let mut parts = tokio::task::JoinSet::new();
        for (part, records) in self.batch.chunks(batch).enumerate() {
            let (mut records, ids): (Vec<Record>, Vec<Digest>) = records.iter().cloned().unzip();
            let (inner, node) = (Arc::clone(&self.inner), self.node);
            let call = async move { inner.call::<Records>(inner.nodes.node(node), &mut records, &ids).await };
            parts.spawn(async move { (part, call.await) });
        }
        let mut written = vec![false; self.batch.len()];
        let mut error = None;
        while let Some(ended) = parts.join_next().await {
            match ended {
                Ok((part, answers)) => {
                    for (i, answer) in answers.into_iter().enumerate() {
                        match answer {
                            Ok(()) => written[part * batch + i] = true,
                            Err(failed) => error = Some(failed),
                        }
                    }
                }
                Err(panic) => {
                    error = Some(StoreError::caused(ErrorKind::Unavailable, "hapax", "the store has panicked", panic))
                }
            }
        }
        let mut left = std::mem::take(&mut self.batch);
        let all = left.len();
        let mut place = 0;
        left.retain(|_| (!written[place], place += 1).0);
        let done = all - left.len();
        let behind = &self.node().behind;
        behind.put_back(left);
        behind.room.add_permits(done);
        behind.progress.send_modify(|progress| {
            progress.done += done as u64;
            if let Some(error) = &error {
                progress.failures += 1;
                progress.error = Some(error.clone());
            }
        });
        error.is_none()
    }
}
