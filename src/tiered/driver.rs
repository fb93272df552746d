//! Asking: batch after batch of one lane, and what becomes of the answers.

use super::few::Few;
use super::inner::Inner;
use super::lane::{Group, Lane, Room};
use super::memory::Memory;
use super::nodes::Node;
use super::operation::Operation;
use crate::digest::Digest;
use crate::store::{ErrorKind, RecordKey, StoreError};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) type Answer<O> = Result<<O as Operation>::Answer, StoreError>;

/// What was asked, and what was answered.
pub(super) type Answered<O> = Few<(<O as Operation>::Request, Answer<O>)>;

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
    /// Whom it asks.
    node: u32,
    batch: Batch<O>,
    runs: bool,
}

impl<O: Operation> Drop for Driver<O> {
    fn drop(&mut self) {
        if self.runs {
            let asked = std::mem::replace(&mut self.batch, Batch::none());
            let lane = self.node().lane::<O>();
            // Another one cannot be started where this one could not go on.
            let waiting = Batch::of(lane.abandon(), lane);
            for batch in [asked, waiting] {
                if let Some(flights) = O::flights(&self.inner.shared) {
                    batch.ids.iter().for_each(|id| drop(flights.land(*id)));
                }
                lane.leave_room(batch.ids.len(), batch.kib);
            }
        }
    }
}

fn start<O: Operation>(inner: &Arc<Inner>, node: &Node) {
    let mut driver = Driver::<O> { inner: Arc::clone(inner), node: node.number, batch: Batch::none(), runs: true };
    inner.runtime.spawn(async move {
        loop {
            // Whoever is ready to ask goes first, and is in the batch: no timer, and no delay if nobody is.
            tokio::task::yield_now().await;
            let lane = driver.node().lane::<O>();
            match lane.take() {
                Some(groups) => driver.batch = Batch::of(groups, lane),
                None => return driver.stop(),
            }
            driver.ask().await;
        }
    });
}

impl<O: Operation> Driver<O> {
    fn node(&self) -> &Node {
        self.inner.nodes.node(self.node)
    }

    /// Nobody waits; the lane has been told.
    fn stop(&mut self) {
        self.runs = false;
    }

    async fn ask(&mut self) {
        let asked_at = tokio::time::Instant::now();
        let node = self.inner.nodes.node(self.node);
        let answers = self.inner.call::<O>(node, &mut self.batch.requests, &self.batch.ids).await;
        self.learn(&answers, asked_at.elapsed());
        let questions: Vec<(RecordKey, O::Sameness)> = match O::flights(&self.inner.shared) {
            Some(_) => self.batch.requests.iter().map(|it| (O::key(it).clone(), O::sameness(it))).collect(),
            None => Vec::new(),
        };
        let undone = self.reply(&answers).await;
        if let Some(flights) = O::flights(&self.inner.shared) {
            for (place, id) in self.batch.ids.iter().enumerate() {
                for tell in flights.land(*id) {
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
        self.node().lane::<O>().leave_room(self.batch.ids.len(), self.batch.kib);
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
    node: &Node,
    memory: &'i Arc<Memory>,
    asked: Few<(O::Request, Digest)>,
    room: Room<'_>,
) -> Led<'i, O> {
    let (reply, answered) = oneshot::channel();
    if node.lane::<O>().push(Group { memory: Arc::clone(memory), asked, reply }, room) {
        start::<O>(inner, node);
    }
    Led { inner, memory, answered }
}

pub(super) fn ended() -> StoreError {
    let what = "the runtime that asks the store has ended, or the store has panicked";
    StoreError::new(ErrorKind::Unavailable, "hapax", what)
}
