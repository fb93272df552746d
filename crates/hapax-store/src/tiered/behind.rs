//! What is done and not yet in the store: written behind, in order, a batch at a time.

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
    /// How many there have been.
    pushed: u64,
    runs: bool,
}

/// How far it has come.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// So many of the first are durable.
    done: u64,
    /// Tries that failed, and why the last one did.
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

    /// How many are not in the store yet.
    pub(super) fn len(&self) -> u64 {
        let pushed = self.lock().pushed;
        pushed - self.progress.borrow().done
    }

    /// So many at most can wait for room at a time.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn close(&self) {
        self.room.close();
    }

    /// Room for so many, if there is some at once.
    pub(super) fn try_room(&self, ids: usize) -> Option<SemaphorePermit<'_>> {
        self.room.try_acquire_many(ids as u32).ok()
    }

    /// Room for so many, before anybody is told that they are fresh.
    pub(super) async fn room(&self, ids: usize) -> Result<SemaphorePermit<'_>, StoreError> {
        self.room
            .acquire_many(ids as u32)
            .await
            .map_err(|_| StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down"))
    }

    /// Takes records on. They are written in this order.
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

    /// Waits until all that was pushed before is durable. A try that fails meanwhile ends the wait; what failed is tried again all the same.
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

    /// What could not be written comes first next time.
    fn put_back(&self, records: Vec<(Record, Digest)>) {
        let mut state = self.lock();
        records.into_iter().rev().for_each(|record| state.queue.push_front(record));
    }
}

/// Writes until all is written. What is under way when it is dropped (the runtime ends, the store panics) is put back.
struct Writer {
    inner: Arc<Inner>,
    /// Where it writes.
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
        // Whoever is ready to check goes first.
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

    /// Nothing is left; the queue has been told.
    fn stop(&mut self) {
        self.runs = false;
    }

    /// Writes what it has taken; whether all of it was.
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
