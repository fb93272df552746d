//! Requests of one kind on their way to the store: those that come while a batch is under way are the next batch.

use super::few::Few;
use super::flights::Flights;
use super::inner::Inner;
use super::memory::Memory;
use super::operation::Operation;
use crate::digest::Digest;
use crate::store::{ErrorKind, RecordKey, StoreError};
use crate::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

pub(super) type Answer<O> = Result<<O as Operation>::Answer, StoreError>;

/// What those are told who asked meanwhile: the answer, and what the question was.
pub(super) struct Told<O: Operation> {
    pub(super) answer: Answer<O>,
    /// Two ids may have one digest.
    key: RecordKey,
    sameness: O::Sameness,
}

impl<O: Operation> Told<O> {
    /// Returns true if that was this question.
    pub(super) fn answers(&self, request: &O::Request) -> bool {
        self.sameness == O::sameness(request) && self.key == *O::key(request)
    }
}

/// Requests of one kind: those that wait, and who waits for them.
pub(super) struct Lane<O: Operation> {
    queue: Mutex<Queue<O>>,
    flights: Flights<Told<O>>,
    /// Requests that may wait or be under way.
    room: Semaphore,
    /// What they may weigh, in KiB.
    room_kib: Semaphore,
    max_kib: u32,
    /// Of the store.
    batch: usize,
    under_way: usize,
}

/// Room for requests that are about to wait. It is given back if they never do, and by whoever has asked them if they do.
pub(super) struct Room<'l> {
    requests: SemaphorePermit<'l>,
    kib: Option<SemaphorePermit<'l>>,
}

impl Room<'_> {
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

/// What one caller asks at a time.
struct Group<O: Operation> {
    memory: Arc<Memory>,
    asked: Few<(O::Request, Digest)>,
    reply: oneshot::Sender<Answered<O>>,
}

/// What was asked, and what was answered.
pub(super) type Answered<O> = Few<(<O as Operation>::Request, Answer<O>)>;

impl<O: Operation> Lane<O> {
    pub(super) fn new(max_requests: usize, max_bytes: usize, batch: usize, under_way: usize) -> Self {
        let max_kib = u32::try_from(max_bytes / 1_024).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 3);
        let queue = Queue { waiting: VecDeque::new(), waiting_requests: 0, asked_requests: 0, drivers: 0 };
        Lane {
            queue: Mutex::new(queue),
            flights: Flights::new(),
            room: Semaphore::new(max_requests),
            room_kib: Semaphore::new(max_kib as usize),
            max_kib,
            batch: batch.min(max_requests),
            under_way,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<O>> {
        // Nothing that can panic is done while it is held.
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many requests wait or are under way.
    pub(super) fn len(&self) -> usize {
        let queue = self.lock();
        queue.waiting_requests + queue.asked_requests
    }

    /// How many requests a caller may ask at a time.
    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// Lets nobody in any more.
    pub(super) fn close(&self) {
        self.room.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.room.is_closed()
    }

    /// Whoever is told what others ask about an id. Whoever is not must ask.
    pub(super) fn join(&self, id: Digest) -> Option<oneshot::Receiver<Option<Told<O>>>> {
        if O::SHARES { self.flights.join(id) } else { None }
    }

    /// Room for these requests, if there is some now.
    pub(super) fn try_room(&self, asked: &[(O::Request, Digest)]) -> Option<Room<'_>> {
        let kib = match self.kib(asked.iter().map(|asked| &asked.0)) {
            0 => None,
            kib => Some(self.room_kib.try_acquire_many(kib).ok()?),
        };
        Some(Room { requests: self.room.try_acquire_many(asked.len() as u32).ok()?, kib })
    }

    /// Waits for room for these requests; `None` if nobody is let in any more.
    pub(super) async fn room(&self, asked: &[(O::Request, Digest)]) -> Option<Room<'_>> {
        let kib = match self.kib(asked.iter().map(|asked| &asked.0)) {
            0 => None,
            kib => Some(self.room_kib.acquire_many(kib).await.ok()?),
        };
        Some(Room { requests: self.room.acquire_many(asked.len() as u32).await.ok()?, kib })
    }

    fn kib<'r>(&self, requests: impl Iterator<Item = &'r O::Request>) -> u32 {
        let bytes: usize = requests.map(O::bytes).sum();
        u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX).min(self.max_kib)
    }

    /// Gives up what was joined and is not asked: those who follow must.
    pub(super) fn leave(&self, ids: &[Digest]) {
        if O::SHARES {
            // Whoever is gone need not know.
            ids.iter().flat_map(|id| self.flights.land(*id)).for_each(|tell| drop(tell.send(None)));
        }
    }

    /// Takes requests on; whether it needs somebody to ask them.
    fn push(&self, group: Group<O>, room: Room<'_>) -> bool {
        room.forget();
        let mut queue = self.lock();
        queue.waiting_requests += group.asked.len();
        queue.waiting.push_back(group);
        let needs_driver = queue.drivers < self.under_way;
        queue.drivers += usize::from(needs_driver);
        needs_driver
    }

    /// The next batch. `None` if nobody waits; then there is a driver less.
    fn take(&self) -> Option<VecDeque<Group<O>>> {
        let mut queue = self.lock();
        // If all that is there can be under way at once, in even parts, then the store works on one while callers see to another.
        let share = (queue.waiting_requests + queue.asked_requests).div_ceil(self.under_way);
        let limit = share.max(SMALL_BATCH).min(self.batch);
        let taken = match queue.waiting_requests <= limit {
            true => std::mem::take(&mut queue.waiting),
            false => {
                let mut taken = VecDeque::new();
                let mut requests = 0;
                while let Some(group) = queue.waiting.front()
                    && (taken.is_empty() || requests + group.asked.len() <= limit)
                {
                    requests += group.asked.len();
                    taken.extend(queue.waiting.pop_front());
                }
                taken
            }
        };
        if taken.is_empty() {
            queue.drivers -= 1;
            return None;
        }
        let requests: usize = taken.iter().map(|group| group.asked.len()).sum();
        queue.waiting_requests -= requests;
        queue.asked_requests += requests;
        Some(taken)
    }

    /// There is a driver less. Those who waited for it, if it was the last.
    fn abandon(&self) -> VecDeque<Group<O>> {
        let mut queue = self.lock();
        queue.drivers -= 1;
        if queue.drivers > 0 {
            return VecDeque::new();
        }
        queue.asked_requests += std::mem::take(&mut queue.waiting_requests);
        std::mem::take(&mut queue.waiting)
    }

    /// So many requests are not under way any more.
    fn leave_room(&self, requests: usize, kib: u32) {
        self.lock().asked_requests -= requests;
        self.room.add_permits(requests);
        if kib > 0 {
            self.room_kib.add_permits(kib as usize);
        }
    }
}

/// Smaller ones are not worth dividing.
const SMALL_BATCH: usize = 32;

/// What is asked in one call.
struct Batch<O: Operation> {
    replies: Vec<(Arc<Memory>, usize, oneshot::Sender<Answered<O>>)>,
    requests: Vec<O::Request>,
    ids: Vec<Digest>,
    kib: u32,
}

impl<O: Operation> Batch<O> {
    fn none() -> Self {
        Batch { replies: Vec::new(), requests: Vec::new(), ids: Vec::new(), kib: 0 }
    }

    fn of(groups: VecDeque<Group<O>>, lane: &Lane<O>) -> Self {
        let mut batch = Self::none();
        for group in groups {
            batch.kib += lane.kib(group.asked.as_slice().iter().map(|asked| &asked.0));
            batch.replies.push((group.memory, group.asked.len(), group.reply));
            for (request, id) in group.asked {
                batch.requests.push(request);
                batch.ids.push(id);
            }
        }
        batch
    }
}

/// Asks batch after batch, until nobody waits. If it is dropped on the way (the runtime ends, the store panics), those who wait learn
/// that nobody asks for them any more.
struct Driver<O: Operation> {
    inner: Arc<Inner>,
    batch: Batch<O>,
    runs: bool,
}

impl<O: Operation> Drop for Driver<O> {
    fn drop(&mut self) {
        if self.runs {
            let lane = self.inner.lane::<O>();
            // Another one cannot be started where this one could not go on.
            let waiting = Batch::of(lane.abandon(), lane);
            for batch in [std::mem::replace(&mut self.batch, Batch::none()), waiting] {
                if O::SHARES {
                    batch.ids.iter().for_each(|id| drop(lane.flights.land(*id)));
                }
                lane.leave_room(batch.ids.len(), batch.kib);
            }
        }
    }
}

fn start<O: Operation>(inner: &Arc<Inner>) {
    let mut driver = Driver::<O> { inner: Arc::clone(inner), batch: Batch::none(), runs: true };
    inner.runtime.spawn(async move {
        loop {
            // Whoever is ready to ask goes first, and is in the batch: no timer, and no delay if nobody is.
            tokio::task::yield_now().await;
            let lane = driver.inner.lane::<O>();
            match lane.take() {
                Some(groups) => driver.batch = Batch::of(groups, lane),
                None => return driver.stop(),
            }
            driver.ask().await;
        }
    });
}

impl<O: Operation> Driver<O> {
    /// Nobody waits; the lane has been told.
    fn stop(&mut self) {
        self.runs = false;
    }

    async fn ask(&mut self) {
        let asked_at = tokio::time::Instant::now();
        let answers = self.inner.call::<O>(&mut self.batch.requests, &self.batch.ids).await;
        self.learn(&answers, asked_at.elapsed());
        let questions: Vec<(RecordKey, O::Sameness)> = match O::SHARES {
            true => self.batch.requests.iter().map(|it| (O::key(it).clone(), O::sameness(it))).collect(),
            false => Vec::new(),
        };
        let undone = self.reply(&answers).await;
        let lane = self.inner.lane::<O>();
        if O::SHARES {
            for (place, id) in self.batch.ids.iter().enumerate() {
                for tell in lane.flights.land(*id) {
                    let told = match &answers[place] {
                        _ if undone.contains(&place) => None,
                        answer => {
                            let (key, sameness) = questions[place].clone();
                            Some(Told { answer: answer.clone(), key, sameness })
                        }
                    };
                    // Whoever is gone need not know.
                    let _ = tell.send(told);
                }
            }
        }
        lane.leave_room(self.batch.ids.len(), self.batch.kib);
        self.batch = Batch::none();
    }

    /// What the store has said is done is remembered.
    fn learn(&self, answers: &[Answer<O>], took: std::time::Duration) {
        let (mut start, mut learned) = (0, Vec::with_capacity(answers.len()));
        let mut replies = self.batch.replies.iter().peekable();
        while let Some((memory, len, _)) = replies.next() {
            let places = start..start + len;
            start += len;
            let (requests, ids) = (&self.batch.requests[places.clone()], &self.batch.ids[places.clone()]);
            learned.extend(completed::<O>(memory, requests, ids, &answers[places], took));
            // Together with the next ones that concern the same memory.
            if replies.peek().is_none_or(|(next, ..)| !Arc::ptr_eq(next, memory)) {
                memory.learn(&learned);
                learned.clear();
            }
        }
    }

    /// Tells those who asked. What was granted to those who are gone is given back; the places of these.
    async fn reply(&mut self, answers: &[Answer<O>]) -> Vec<usize> {
        let (mut start, mut undone, mut granted) = (0, Vec::new(), Vec::new());
        let mut answered = std::mem::take(&mut self.batch.requests).into_iter().zip(answers.iter().cloned());
        for (memory, len, reply) in std::mem::take(&mut self.batch.replies) {
            let places = start..start + len;
            start += len;
            if let Err(gone) = reply.send(Few::take(len, &mut answered)) {
                let back = grants::<O>(&self.inner, &memory, gone);
                undone.extend(places.filter(|place| answers[*place].as_ref().is_ok_and(O::needs_undo)));
                granted.extend(back);
            }
        }
        self.inner.undo::<O>(&granted).await;
        undone
    }
}

/// Those that are done, as the store says, for as long as this memory remembers.
pub(super) fn completed<O: Operation>(
    memory: &Memory,
    requests: &[O::Request],
    ids: &[Digest],
    answers: &[Answer<O>],
    took: std::time::Duration,
) -> impl Iterator<Item = Digest> {
    requests.iter().zip(ids).zip(answers).filter_map(move |((request, id), answer)| {
        let expires_in = O::completed(request, answer.as_ref().ok()?, took)?;
        memory.may_learn(expires_in).then_some(*id)
    })
}

/// What was granted to somebody who is gone. Memory forgets it.
fn grants<O: Operation>(
    inner: &Inner,
    memory: &Memory,
    gone: Answered<O>,
) -> impl Iterator<Item = (O::Request, O::Answer)> {
    gone.into_iter().filter_map(move |(request, answer)| {
        let granted = answer.ok().filter(O::needs_undo)?;
        memory.unlearn(inner.id(memory, O::key(&request)));
        Some((request, granted))
    })
}

/// A caller's own requests. If the caller is dropped when the answer is there and not yet taken, that is given back.
pub(super) struct Led<'i, O: Operation> {
    inner: &'i Arc<Inner>,
    memory: &'i Arc<Memory>,
    answered: oneshot::Receiver<Answered<O>>,
}

impl<O: Operation> Led<'_, O> {
    pub(super) async fn answer(mut self) -> Result<Answered<O>, StoreError> {
        (&mut self.answered).await.map_err(|_| ended())
    }
}

impl<O: Operation> Drop for Led<'_, O> {
    fn drop(&mut self) {
        self.answered.close();
        let Ok(gone) = self.answered.try_recv() else { return };
        let granted: Vec<_> = grants::<O>(self.inner, self.memory, gone).collect();
        if !granted.is_empty() {
            let inner = Arc::clone(self.inner);
            self.inner.runtime.spawn(async move { inner.undo::<O>(&granted).await });
        }
    }
}

/// Puts requests where they are asked.
pub(super) fn lead<'i, O: Operation>(
    inner: &'i Arc<Inner>,
    memory: &'i Arc<Memory>,
    asked: Few<(O::Request, Digest)>,
    room: Room<'_>,
) -> Led<'i, O> {
    let (reply, answered) = oneshot::channel();
    if inner.lane::<O>().push(Group { memory: Arc::clone(memory), asked, reply }, room) {
        start::<O>(inner);
    }
    Led { inner, memory, answered }
}

pub(super) fn ended() -> StoreError {
    let what = "the runtime that asks the store has ended, or the store has panicked";
    StoreError::new(ErrorKind::Unavailable, "hapax", what)
}
