//! Requests of one kind on their way to a node: requests that come while a batch is under way are
//! the next batch.

use super::answers::Answered;
use super::operation::Operation;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::tiered::one_or_many::OneOrMany;
use crate::tiered::single_flight::Flight;
use hapax::seam::Memory;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

/// The parameters of a batcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueOptions {
    pub(crate) max_waiting: usize,
    pub(crate) max_waiting_bytes: usize,
    /// The number of requests in a batch, at least 1.
    pub(crate) batch: usize,
    /// The number of batches under way at a time, at least 1.
    pub(crate) under_way: usize,
}

/// Requests of one kind that wait for one node.
pub(crate) struct Batcher<O: Operation> {
    queue: Mutex<Queue<O>>,
    /// For requests that may wait or be under way.
    permits: Semaphore,
    /// For their size, in KiB.
    permits_kib: Semaphore,
    max_kib: u32,
    /// The store's batch size.
    batch: usize,
    under_way: usize,
}

/// Permits for requests that are about to wait. If they never wait, they are given back when this
/// is dropped, and otherwise by the driver that has sent them.
pub(super) struct Permits<'b> {
    requests: SemaphorePermit<'b>,
    kib: Option<SemaphorePermit<'b>>,
}

impl Permits<'_> {
    fn forget(self) {
        self.requests.forget();
        self.kib.into_iter().for_each(SemaphorePermit::forget);
    }
}

struct Queue<O: Operation> {
    waiting: VecDeque<Group<O>>,
    waiting_requests: usize,
    asked_requests: usize,
    drivers: usize,
}

/// The concurrent requests of one caller.
pub(super) struct Group<O: Operation> {
    pub(super) memory: Arc<Memory>,
    pub(super) asked: OneOrMany<(O::Request, Flight)>,
    pub(super) reply: oneshot::Sender<Answered<O>>,
}

impl<O: Operation> Batcher<O> {
    pub(super) fn new(options: &QueueOptions) -> Self {
        let max_kib = u32::try_from(options.max_waiting_bytes / 1_024).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 3);
        let queue = Queue { waiting: VecDeque::new(), waiting_requests: 0, asked_requests: 0, drivers: 0 };
        Batcher {
            queue: Mutex::new(queue),
            permits: Semaphore::new(options.max_waiting),
            permits_kib: Semaphore::new(max_kib as usize),
            max_kib,
            batch: options.batch.min(options.max_waiting),
            under_way: options.under_way,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<O>> {
        // Nothing that can panic is done while it is held.
        lock(&self.queue)
    }

    /// Returns the number of requests that wait or are under way.
    pub(super) fn len(&self) -> usize {
        let queue = self.lock();
        queue.waiting_requests + queue.asked_requests
    }

    /// Returns the largest number of requests that a caller may send at a time.
    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// Closes the batcher: no further request is let in.
    pub(super) fn close(&self) {
        self.permits.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// Returns permits for these requests, if there are enough now.
    pub(super) fn try_permits(&self, asked: &[(O::Request, Flight)]) -> Option<Permits<'_>> {
        let kib = match self.kib(asked.iter().map(|asked| &asked.0)) {
            0 => None,
            kib => Some(self.permits_kib.try_acquire_many(kib).ok()?),
        };
        Some(Permits { requests: self.permits.try_acquire_many(asked.len() as u32).ok()?, kib })
    }

    /// Waits for permits for these requests; `None` if the batcher is closed.
    pub(super) async fn permits(&self, asked: &[(O::Request, Flight)]) -> Option<Permits<'_>> {
        let kib = match self.kib(asked.iter().map(|asked| &asked.0)) {
            0 => None,
            kib => Some(self.permits_kib.acquire_many(kib).await.ok()?),
        };
        Some(Permits { requests: self.permits.acquire_many(asked.len() as u32).await.ok()?, kib })
    }

    pub(super) fn kib<'r>(&self, requests: impl Iterator<Item = &'r O::Request>) -> u32 {
        let bytes: usize = requests.map(O::bytes).sum();
        u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX).min(self.max_kib)
    }

    /// Adds requests. Returns true if they need a further driver.
    pub(super) fn push(&self, group: Group<O>, permits: Permits<'_>) -> bool {
        permits.forget();
        let mut queue = self.lock();
        queue.waiting_requests += group.asked.len();
        queue.waiting.push_back(group);
        let needs_driver = queue.drivers < self.under_way;
        queue.drivers += usize::from(needs_driver);
        needs_driver
    }

    /// Returns the next batch. `None` if no caller waits; then there is one driver less.
    pub(super) fn take(&self) -> Option<VecDeque<Group<O>>> {
        let mut queue = self.lock();
        // If all requests can be under way at once, in even parts, then the store works on one part
        // while callers handle another.
        let share = (queue.waiting_requests + queue.asked_requests).div_ceil(self.under_way);
        let limit = share.max(SMALL_BATCH).min(self.batch);
        let taken = if queue.waiting_requests <= limit {
            std::mem::take(&mut queue.waiting)
        } else {
            let mut taken = VecDeque::new();
            let mut requests = 0;
            while let Some(group) = queue.waiting.front()
                && (taken.is_empty() || requests + group.asked.len() <= limit)
            {
                requests += group.asked.len();
                taken.extend(queue.waiting.pop_front());
            }
            taken
        };
        if taken.is_empty() {
            queue.drivers -= 1;
            return None;
        }
        let requests: usize = taken.iter().map(|group| group.asked.len()).sum();
        debug_assert!(!queue.waiting.is_empty() || queue.waiting_requests == requests, "each is counted once");
        queue.waiting_requests -= requests;
        queue.asked_requests += requests;
        Some(taken)
    }

    /// Removes a driver. Returns the requests that waited for it, if it was the last.
    pub(super) fn abandon(&self) -> VecDeque<Group<O>> {
        let mut queue = self.lock();
        queue.drivers -= 1;
        if queue.drivers > 0 {
            return VecDeque::new();
        }
        queue.asked_requests += std::mem::take(&mut queue.waiting_requests);
        std::mem::take(&mut queue.waiting)
    }

    /// Gives back the permits of this many requests that are no longer under way.
    pub(super) fn give_back(&self, requests: usize, kib: u32) {
        let mut queue = self.lock();
        debug_assert!(requests <= queue.asked_requests, "only what is under way ends");
        queue.asked_requests -= requests;
        drop(queue);
        self.permits.add_permits(requests);
        if kib > 0 {
            self.permits_kib.add_permits(kib as usize);
        }
    }
}

/// The size below which batches are not worth dividing.
const SMALL_BATCH: usize = 32;
