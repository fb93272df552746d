//! Requests of one kind on their way to the store: those that come while a batch is under way are the next batch.

use super::inner::Inner;
use super::memory::Memory;
use super::operation::Operation;
use crate::digest::Digest;
use crate::store::{ErrorKind, Store, StoreError};
use crate::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

type Answer<O> = Result<<O as Operation>::Answer, StoreError>;

/// Requests of one kind: those that wait, and who waits for them.
pub(super) struct Lane<O: Operation> {
    state: Mutex<State<O>>,
    /// Requests that may wait or be under way.
    room: Semaphore,
    /// What they may weigh, in KiB.
    room_kib: Semaphore,
    max_kib: u32,
    /// Of the store.
    batch: usize,
    under_way: usize,
}

struct State<O: Operation> {
    waiting: VecDeque<Group<O>>,
    waiting_requests: usize,
    asked_requests: usize,
    drivers: usize,
    /// Ids that are asked about, and who else wants to know.
    flights: HashMap<Digest, Vec<Follower<O>>>,
}

/// Somebody who asks the same while it is being asked.
struct Follower<O: Operation> {
    asks: O::Request,
    /// `None` if there is nothing that it could be told.
    tell: oneshot::Sender<Option<Answer<O>>>,
}

/// What one caller has asked at a time.
struct Group<O: Operation> {
    memory: Arc<Memory>,
    asked: Asked<O>,
    kib: u32,
    reply: oneshot::Sender<Answered<O>>,
}

struct Asked<O: Operation> {
    requests: Vec<O::Request>,
    ids: Vec<Digest>,
}

struct Answered<O: Operation> {
    requests: Vec<O::Request>,
    answers: Vec<Answer<O>>,
}

/// Where a caller's requests went: into a group of its own, and after others'.
struct Entered<O: Operation> {
    /// Places among the caller's requests.
    led: Vec<usize>,
    leads: Option<oneshot::Receiver<Answered<O>>>,
    follows: Vec<(usize, oneshot::Receiver<Option<Answer<O>>>)>,
    needs_driver: bool,
}

impl<O: Operation> Lane<O> {
    pub(super) fn new(max_requests: usize, max_bytes: usize, batch: usize, under_way: usize) -> Self {
        let max_kib = u32::try_from(max_bytes / 1_024).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 3);
        Lane {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                waiting_requests: 0,
                asked_requests: 0,
                drivers: 0,
                flights: HashMap::new(),
            }),
            room: Semaphore::new(max_requests),
            room_kib: Semaphore::new(max_kib as usize),
            max_kib,
            batch: batch.min(max_requests),
            under_way,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<O>> {
        // Nothing that can panic is done while it is held.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many requests wait or are under way.
    pub(super) fn len(&self) -> usize {
        let state = self.lock();
        state.waiting_requests + state.asked_requests
    }

    /// Lets nobody in any more.
    pub(super) fn close(&self) {
        self.room.close();
    }

    /// Waits for room for these requests.
    async fn room(&self, requests: &[(O::Request, Digest)]) -> Option<(SemaphorePermit<'_>, u32)> {
        let bytes: usize = requests.iter().map(|(request, _)| O::bytes(request)).sum();
        let kib = u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX).min(self.max_kib);
        if kib > 0 {
            self.room_kib.acquire_many(kib).await.ok()?.forget();
        }
        match self.room.acquire_many(requests.len() as u32).await {
            Ok(room) => Some((room, kib)),
            Err(_) => {
                self.room_kib.add_permits(kib as usize);
                None
            }
        }
    }

    /// Puts requests where they are asked, or where they are told what others ask.
    fn enter(
        &self,
        memory: &Arc<Memory>,
        requests: impl Iterator<Item = (usize, (O::Request, Digest))>,
        mut room: SemaphorePermit<'_>,
        kib: u32,
    ) -> Entered<O> {
        let mut entered = Entered { led: Vec::new(), leads: None, follows: Vec::new(), needs_driver: false };
        let mut asked = Asked { requests: Vec::new(), ids: Vec::new() };
        let mut state = self.lock();
        for (place, (request, id)) in requests {
            if O::SHARES {
                if let Some(followers) = state.flights.get_mut(&id) {
                    let (tell, told) = oneshot::channel();
                    followers.push(Follower { asks: request, tell });
                    entered.follows.push((place, told));
                    continue;
                }
                state.flights.insert(id, Vec::new());
            }
            asked.requests.push(request);
            asked.ids.push(id);
            entered.led.push(place);
        }
        if asked.requests.is_empty() {
            drop(state);
            self.room_kib.add_permits(kib as usize);
            return entered;
        }
        let (reply, answered) = oneshot::channel();
        entered.leads = Some(answered);
        // What is not forgotten goes back: that of followers.
        if let Some(taken) = room.split(asked.requests.len()) {
            taken.forget();
        }
        state.waiting_requests += asked.requests.len();
        state.waiting.push_back(Group { memory: Arc::clone(memory), asked, kib, reply });
        entered.needs_driver = state.drivers < self.under_way;
        state.drivers += usize::from(entered.needs_driver);
        entered
    }

    /// The next batch. `None` if nobody waits; then there is a driver less.
    fn take(&self) -> Option<Batch<O>> {
        let mut state = self.lock();
        // If all that is there can be under way at once, in even parts, then the store works on one while callers see to another.
        let share = (state.waiting_requests + state.asked_requests).div_ceil(self.under_way);
        let limit = share.max(SMALL_BATCH).min(self.batch);
        let mut batch = Batch::default();
        while let Some(group) = state.waiting.front() {
            if !batch.requests.is_empty() && batch.requests.len() + group.asked.requests.len() > limit {
                break;
            }
            let Some(mut group) = state.waiting.pop_front() else { break };
            batch.lens.push(group.asked.requests.len());
            batch.requests.append(&mut group.asked.requests);
            batch.ids.append(&mut group.asked.ids);
            batch.groups.push(group);
        }
        if batch.groups.is_empty() {
            state.drivers -= 1;
            return None;
        }
        state.waiting_requests -= batch.requests.len();
        state.asked_requests += batch.requests.len();
        Some(batch)
    }

    /// There is a driver less. Those who waited for it, if it was the last.
    fn abandon(&self) -> Option<Batch<O>> {
        let mut state = self.lock();
        state.drivers -= 1;
        if state.drivers > 0 {
            return None;
        }
        let mut batch = Batch::default();
        for mut group in std::mem::take(&mut state.waiting) {
            batch.ids.append(&mut group.asked.ids);
            batch.groups.push(group);
        }
        state.asked_requests += std::mem::take(&mut state.waiting_requests);
        Some(batch)
    }

    /// A batch has come back: nobody needs to wait for its ids any more. Who did is returned, with the place of what they waited for.
    fn land(&self, batch: &Batch<O>) -> Vec<(usize, Vec<Follower<O>>)> {
        let mut state = self.lock();
        state.asked_requests -= batch.ids.len();
        let mut followers = Vec::new();
        if O::SHARES {
            for (place, id) in batch.ids.iter().enumerate() {
                match state.flights.remove(id) {
                    Some(waiting) if !waiting.is_empty() => followers.push((place, waiting)),
                    _ => {}
                }
            }
        }
        drop(state);
        self.room.add_permits(batch.ids.len());
        self.room_kib.add_permits(batch.groups.iter().map(|group| group.kib as usize).sum());
        followers
    }
}

/// Smaller ones are not worth dividing.
const SMALL_BATCH: usize = 32;

/// What is asked in one call.
struct Batch<O: Operation> {
    groups: Vec<Group<O>>,
    /// How many requests of each group.
    lens: Vec<usize>,
    requests: Vec<O::Request>,
    ids: Vec<Digest>,
}

impl<O: Operation> Default for Batch<O> {
    fn default() -> Self {
        Batch { groups: Vec::new(), lens: Vec::new(), requests: Vec::new(), ids: Vec::new() }
    }
}

/// Asks batch after batch, until nobody waits. If it is dropped on the way (the runtime ends, the store panics), those who wait learn
/// that nobody asks for them any more.
struct Driver<S: Store, O: Operation> {
    inner: Arc<Inner<S>>,
    batch: Batch<O>,
    runs: bool,
}

impl<S: Store, O: Operation> Drop for Driver<S, O> {
    fn drop(&mut self) {
        if self.runs {
            let lane = self.inner.lane::<O>();
            drop(lane.land(&std::mem::take(&mut self.batch)));
            // Another one cannot be started where this one could not go on. If it is the last, those who wait learn that as well.
            if let Some(waiting) = lane.abandon() {
                drop(lane.land(&waiting));
            }
        }
    }
}

fn start<S: Store, O: Operation>(inner: &Arc<Inner<S>>) {
    let mut driver = Driver::<S, O> { inner: Arc::clone(inner), batch: Batch::default(), runs: true };
    inner.runtime.spawn(async move {
        loop {
            // Whoever is ready to ask goes first, and is in the batch: no timer, and no delay if nobody is.
            tokio::task::yield_now().await;
            match driver.inner.lane::<O>().take() {
                Some(batch) => driver.batch = batch,
                None => return driver.stop(),
            }
            driver.ask().await;
        }
    });
}

impl<S: Store, O: Operation> Driver<S, O> {
    /// Nobody waits; the lane has been told.
    fn stop(&mut self) {
        self.runs = false;
    }

    async fn ask(&mut self) {
        let answers = self.inner.call::<O>(&mut self.batch.requests, &self.batch.ids).await;
        self.learn(&answers);
        let undone = self.reply(&answers).await;
        for (place, followers) in self.inner.lane::<O>().land(&self.batch) {
            for Follower { asks, tell } in followers {
                let told = match &answers[place] {
                    _ if undone.contains(&place) => None,
                    Ok(answer) => O::shared(answer, &self.batch.requests[place], &asks).map(Ok),
                    Err(error) => Some(Err(error.clone())),
                };
                // Whoever is gone need not know.
                let _ = tell.send(told);
            }
        }
        self.batch = Batch::default();
    }

    /// What the store has said is done is remembered.
    fn learn(&self, answers: &[Answer<O>]) {
        let (mut start, mut learned) = (0, Vec::new());
        for (group, len) in self.batch.groups.iter().zip(&self.batch.lens) {
            let places = start..start + len;
            start += len;
            learned.clear();
            learned.extend(places.filter_map(|place| {
                let expires_in = O::completed(&self.batch.requests[place], answers[place].as_ref().ok()?)?;
                group.memory.may_learn(expires_in).then(|| self.batch.ids[place])
            }));
            group.memory.learn(&learned);
        }
    }

    /// Tells those who asked. What was granted to those who are gone is given back; the places of these.
    async fn reply(&mut self, answers: &[Answer<O>]) -> Vec<usize> {
        let (mut start, mut undone, mut granted) = (0, Vec::new(), Vec::new());
        for (group, len) in self.batch.groups.iter_mut().zip(&self.batch.lens) {
            let places = start..start + len;
            start += len;
            let reply = std::mem::replace(&mut group.reply, oneshot::channel().0);
            let requests = self.batch.requests[places.clone()].to_vec();
            let Err(gone) = reply.send(Answered { requests, answers: answers[places.clone()].to_vec() }) else {
                continue;
            };
            for (place, (request, answer)) in places.zip(gone.requests.into_iter().zip(gone.answers)) {
                if let Some(answer) = answer.ok().filter(O::needs_undo) {
                    group.memory.unlearn(self.batch.ids[place]);
                    granted.push((request, answer));
                    undone.push(place);
                }
            }
        }
        self.inner.undo::<O>(&granted).await;
        undone
    }
}

/// A caller's own group. If the caller is dropped when the answer is there and not yet taken, that is given back.
struct Led<'i, S: Store, O: Operation> {
    inner: &'i Arc<Inner<S>>,
    memory: &'i Arc<Memory>,
    ids: Vec<Digest>,
    answered: oneshot::Receiver<Answered<O>>,
}

impl<S: Store, O: Operation> Drop for Led<'_, S, O> {
    fn drop(&mut self) {
        self.answered.close();
        let Ok(gone) = self.answered.try_recv() else { return };
        let (inner, mut granted) = (Arc::clone(self.inner), Vec::new());
        for ((request, answer), id) in gone.requests.into_iter().zip(gone.answers).zip(&self.ids) {
            if let Some(answer) = answer.ok().filter(O::needs_undo) {
                self.memory.unlearn(*id);
                granted.push((request, answer));
            }
        }
        if !granted.is_empty() {
            self.inner.runtime.spawn(async move { inner.undo::<O>(&granted).await });
        }
    }
}

fn ended() -> StoreError {
    StoreError::new(
        ErrorKind::Unavailable,
        "hapax",
        "the runtime that asks the store has ended, or the store has panicked",
    )
}

fn closed() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down")
}

impl<S: Store> Inner<S> {
    /// Asks the store, together with others who ask now.
    pub(super) async fn ask<O: Operation>(
        self: &Arc<Self>,
        memory: &Arc<Memory>,
        requests: Vec<(O::Request, Digest)>,
    ) -> Vec<Answer<O>> {
        let lane = self.lane::<O>();
        let mut answers: Vec<Option<Answer<O>>> = requests.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..requests.len()).collect();
        while !open.is_empty() {
            let (mut leads, mut follows) = (Vec::new(), Vec::new());
            for part in open.chunks(lane.batch) {
                let asked: Vec<_> = part.iter().map(|&place| requests[place].clone()).collect();
                let Some((room, kib)) = lane.room(&asked).await else {
                    return answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(closed()))).collect();
                };
                let entered = lane.enter(memory, part.iter().copied().zip(asked), room, kib);
                if entered.needs_driver {
                    start::<S, O>(self);
                }
                if let Some(answered) = entered.leads {
                    let ids = entered.led.iter().map(|&place| requests[place].1).collect();
                    leads.push((entered.led, Led { inner: self, memory, ids, answered }));
                }
                follows.extend(entered.follows);
            }
            open.clear();
            for (places, mut led) in leads {
                match (&mut led.answered).await {
                    Ok(answered) => places
                        .into_iter()
                        .zip(answered.answers)
                        .for_each(|(place, answer)| answers[place] = Some(answer)),
                    Err(_) => places.into_iter().for_each(|place| answers[place] = Some(Err(ended()))),
                }
            }
            for (place, told) in follows {
                match told.await {
                    Ok(Some(answer)) => answers[place] = Some(answer),
                    Ok(None) => open.push(place),
                    Err(_) => answers[place] = Some(Err(ended())),
                }
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(ended()))).collect()
    }

    /// The same about one id.
    pub(super) async fn ask_one<O: Operation>(
        self: &Arc<Self>,
        memory: &Arc<Memory>,
        request: O::Request,
        id: Digest,
    ) -> Answer<O> {
        self.ask::<O>(memory, vec![(request, id)]).await.pop().unwrap_or_else(|| Err(ended()))
    }
}
