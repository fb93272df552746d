//! Drivers: each sends one batch of a lane after another, and delivers the answers.

use super::few::Few;
use super::flights::Flight;
use super::inner::Inner;
use super::lane::{Group, Lane};
use super::led::GivingBack;
use super::nodes::Node;
use super::operation::{Operation, Shared};
use crate::{ErrorKind, RecordKey, StoreError};
use hapax::Digest;
use hapax::tier::Memory;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(super) type Answer<O> = Result<<O as Operation>::Answer, StoreError>;

/// Requests, and their answers.
pub(super) struct Answered<O: Operation> {
    pub(super) asked: Few<(O::Request, Answer<O>)>,
    pub(super) asked_at: Instant,
}

/// The answer for a follower, with the request that it answers.
pub(super) struct Told<O: Operation> {
    pub(super) answer: Answer<O>,
    /// Two ids may have one digest.
    key: RecordKey,
    sameness: O::Sameness,
}

impl<O: Operation> Told<O> {
    /// Returns true if it answers this request.
    pub(super) fn answers(&self, request: &O::Request) -> bool {
        self.sameness == O::sameness(request) && self.key == *O::key(request)
    }
}

/// The requests of one call.
struct Batch<O: Operation> {
    replies: Vec<(Arc<Memory>, usize, oneshot::Sender<Answered<O>>)>,
    requests: Vec<O::Request>,
    ids: Vec<Digest>,
    flights: Vec<Flight>,
    /// The room to give back: that of the requests, and of the requests whose callers are gone.
    room: usize,
    kib: u32,
}

impl<O: Operation> Batch<O> {
    fn none() -> Self {
        Batch { replies: Vec::new(), requests: Vec::new(), ids: Vec::new(), flights: Vec::new(), room: 0, kib: 0 }
    }

    fn of(groups: VecDeque<Group<O>>, lane: &Lane<O>, shared: &Shared) -> Self {
        let mut batch = Self::none();
        for group in groups {
            batch.room += group.asked.len();
            batch.kib += lane.kib(group.asked.as_slice().iter().map(|asked| &asked.0));
            if let Some(shared) = O::flights(shared).filter(|_| group.reply.is_closed()) {
                // Its caller is gone, and if it were granted it would have to be given back.
                group.asked.into_iter().for_each(|(_, flight)| shared.land_untold(flight));
                continue;
            }
            batch.replies.push((group.memory, group.asked.len(), group.reply));
            for (request, flight) in group.asked {
                batch.requests.push(request);
                batch.ids.push(flight.id);
                batch.flights.push(flight);
            }
        }
        batch
    }
}

/// A driver, which sends batch after batch until no caller waits. If it is dropped on the way (the
/// runtime ends, the store panics), the waiting callers learn that no driver asks for them any
/// more.
struct Driver<O: Operation> {
    inner: Arc<Inner>,
    /// The node that it calls.
    node: u32,
    batch: Batch<O>,
    runs: bool,
}

impl<O: Operation> Drop for Driver<O> {
    fn drop(&mut self) {
        if self.runs {
            let asked = std::mem::replace(&mut self.batch, Batch::none());
            let lane = self.node().lane::<O>();
            // Another driver cannot be started where this one could not go on.
            let waiting = Batch::of(lane.abandon(), lane, &self.inner.shared);
            for batch in [asked, waiting] {
                if let Some(shared) = O::flights(&self.inner.shared) {
                    batch.flights.iter().for_each(|flight| drop(shared.land(*flight)));
                }
                lane.leave_room(batch.room, batch.kib);
            }
        }
    }
}

pub(super) fn start<O: Operation>(inner: &Arc<Inner>, node: &Node) {
    let mut driver = Driver::<O> { inner: Arc::clone(inner), node: node.number, batch: Batch::none(), runs: true };
    inner.runtime.spawn(async move {
        loop {
            // Lets tasks that are ready to ask go first, so that they are in the batch: no timer,
            // and no delay if there are none.
            tokio::task::yield_now().await;
            let lane = driver.node().lane::<O>();
            match lane.take() {
                Some(groups) => driver.batch = Batch::of(groups, lane, &driver.inner.shared),
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

    /// Notes that no caller waits; the lane has been told.
    fn stop(&mut self) {
        self.runs = false;
    }

    /// Calls the store, then tells the followers, and only then the callers: a caller with an
    /// answer may ask again at once, and must not meet a flight whose answer is there.
    async fn ask(&mut self) {
        let asked_at = Instant::now();
        if !self.batch.requests.is_empty() {
            let node = self.inner.nodes.node(self.node);
            let answers = self.inner.call::<O>(node, &mut self.batch.requests, &self.batch.ids).await;
            self.learn(&answers, asked_at.elapsed());
            self.tell(&answers);
            self.reply(answers, asked_at).start();
        }
        self.node().lane::<O>().leave_room(self.batch.room, self.batch.kib);
        self.batch = Batch::none();
    }

    /// Teaches memory the ids that are done by the store's answers. (A granted id is learned by the
    /// caller that takes it. An answer beside a flight is not learned at all: it may be given
    /// back.)
    fn learn(&self, answers: &[Answer<O>], took: Duration) {
        let (mut start, mut learned) = (0, Vec::with_capacity(answers.len()));
        let mut replies = self.batch.replies.iter().peekable();
        while let Some((memory, len, _)) = replies.next() {
            let places = start..start + len;
            start += len;
            let (requests, ids) = (&self.batch.requests[places.clone()], &self.batch.ids[places.clone()]);
            let (flights, answers) = (&self.batch.flights[places.clone()], &answers[places]);
            for ((request, flight), answer) in requests.iter().zip(flights).zip(answers) {
                let stays = |answer: &&O::Answer| !O::GRANTS || !O::is_granted(answer) && !flight.is_aside();
                let stays = answer.as_ref().ok().filter(stays);
                if stays.is_some_and(|answer| is_done::<O>(memory, request, answer, took)) {
                    learned.push(flight.id);
                }
            }
            self.inner.doubt(memory, unknown::<O>(ids, answers));
            // Together with the next answers for the same memory.
            if replies.peek().is_none_or(|(next, ..)| !Arc::ptr_eq(next, memory)) {
                self.inner.teach(memory, &learned);
                learned.clear();
            }
        }
    }

    /// Tells the followers.
    fn tell(&mut self, answers: &[Answer<O>]) {
        let Some(shared) = O::flights(&self.inner.shared) else { return };
        for (answer, (request, flight)) in answers.iter().zip(self.batch.requests.iter().zip(&self.batch.flights)) {
            let others = match answer.as_ref().is_ok_and(O::is_granted) {
                true => shared.granted(*flight).unwrap_or_default(),
                false => shared.land(*flight),
            };
            for tell in others {
                let (answer, key, sameness) = (answer.clone(), O::key(request).clone(), O::sameness(request));
                // A follower that is gone gets nothing.
                let _ = tell.send(Some(Told { answer, key, sameness }));
            }
        }
    }

    /// Tells the callers. Returns the grants to callers that are gone, which are to be given back.
    fn reply(&mut self, answers: Vec<Answer<O>>, asked_at: Instant) -> GivingBack<O> {
        let mut back = GivingBack::of(&self.inner, std::iter::empty());
        let mut answered = std::mem::take(&mut self.batch.requests).into_iter().zip(answers);
        let mut flights = std::mem::take(&mut self.batch.flights).into_iter();
        for (_, len, reply) in std::mem::take(&mut self.batch.replies) {
            let theirs = flights.by_ref().take(len);
            if let Err(gone) = reply.send(Answered { asked: Few::take(len, &mut answered), asked_at }) {
                back = back.and(GivingBack::of(&self.inner, gone.asked.into_iter().zip(theirs)));
            } else {
                theirs.for_each(drop);
            }
        }
        back
    }
}

/// Returns true if the store's answer says that the id is done, for at least as long as this memory
/// remembers.
pub(super) fn is_done<O: Operation>(memory: &Memory, request: &O::Request, answer: &O::Answer, took: Duration) -> bool {
    O::completed(request, answer, took).is_some_and(|expires_in| memory.may_learn(expires_in))
}

/// Returns the ids that the store may have granted without an answer.
pub(super) fn unknown<O: Operation>(ids: &[Digest], answers: &[Answer<O>]) -> impl Iterator<Item = Digest> {
    let unknown = ids.iter().zip(answers).filter(|(_, answer)| O::GRANTS && answer.is_err());
    unknown.map(|(id, _)| *id)
}

pub(super) fn ended() -> StoreError {
    let what = "the runtime that asks the store has ended, or the store has panicked";
    StoreError::new(ErrorKind::Unavailable, "hapax", what)
}
