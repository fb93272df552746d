//! Drivers: each sends one batch of a batcher after another, and delivers the answers.

use super::answers::{Answer, Answered, SharedAnswer, is_done, unknown};
use super::batcher::{Batcher, Group};
use super::batchers::{Batched, SingleFlights};
use super::call::call;
use super::client::Client;
use super::giving_back::GivingBack;
use super::nodes::Node;
use crate::tiered::one_or_many::OneOrMany;
use crate::tiered::single_flight::Flight;
use hapax::seam::{Digest, Memory};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The requests of one call.
struct Batch<O: Batched> {
    /// The callers, in the order of their requests.
    recipients: Vec<Recipient<O>>,
    requests: Vec<O::Request>,
    ids: Vec<Digest>,
    flights: Vec<Flight>,
    /// The permits to give back: those of the requests, and of the requests whose callers are gone.
    permits: usize,
    permits_kib: u32,
}

/// A caller, and the number of its requests in a batch.
struct Recipient<O: Batched> {
    memory: Arc<Memory>,
    len: usize,
    reply: oneshot::Sender<Answered<O>>,
}

impl<O: Batched> Batch<O> {
    fn none() -> Self {
        Batch {
            recipients: Vec::new(),
            requests: Vec::new(),
            ids: Vec::new(),
            flights: Vec::new(),
            permits: 0,
            permits_kib: 0,
        }
    }

    fn of(groups: VecDeque<Group<O>>, batcher: &Batcher<O>, all: &SingleFlights) -> Self {
        let mut batch = Self::none();
        for group in groups {
            batch.permits += group.asked.len();
            batch.permits_kib += batcher.kib(group.asked.as_slice().iter().map(|asked| &asked.0));
            if let Some(single_flight) = O::single_flight(all).filter(|_| group.reply.is_closed()) {
                // Its caller is gone, and if it were granted it would have to be given back.
                group.asked.into_iter().for_each(|(_, flight)| single_flight.land_untold(flight));
                continue;
            }
            batch.recipients.push(Recipient { memory: group.memory, len: group.asked.len(), reply: group.reply });
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
struct Driver<O: Batched> {
    client: Arc<Client>,
    /// The node that it calls.
    node: u32,
    batch: Batch<O>,
    runs: bool,
}

impl<O: Batched> Drop for Driver<O> {
    fn drop(&mut self) {
        if self.runs {
            let asked = std::mem::replace(&mut self.batch, Batch::none());
            let batcher = self.node().batcher::<O>();
            // Another driver cannot be started where this one could not go on.
            let waiting = Batch::of(batcher.abandon(), batcher, &self.client.single_flights);
            for batch in [asked, waiting] {
                if let Some(single_flight) = O::single_flight(&self.client.single_flights) {
                    batch.flights.iter().for_each(|flight| drop(single_flight.land(*flight)));
                }
                batcher.give_back(batch.permits, batch.permits_kib);
            }
        }
    }
}

pub(super) fn start<O: Batched>(client: &Arc<Client>, node: &Node) {
    let mut driver = Driver::<O> { client: Arc::clone(client), node: node.number, batch: Batch::none(), runs: true };
    client.runtime.spawn(async move {
        loop {
            // Lets tasks that are ready to ask go first, so that they are in the batch: no timer,
            // and no delay if there are none.
            tokio::task::yield_now().await;
            let batcher = driver.node().batcher::<O>();
            match batcher.take() {
                Some(groups) => driver.batch = Batch::of(groups, batcher, &driver.client.single_flights),
                // No caller waits; the batcher has been told.
                None => return driver.stop(),
            }
            driver.ask().await;
        }
    });
}

impl<O: Batched> Driver<O> {
    fn stop(mut self) {
        self.runs = false;
    }

    fn node(&self) -> &Node {
        self.client.nodes.numbered(self.node)
    }

    /// Calls the store, then tells the followers, and only then the callers: a caller with an
    /// answer may ask again at once, and must not meet a flight whose answer is there.
    async fn ask(&mut self) {
        let asked_at = Instant::now();
        if !self.batch.requests.is_empty() {
            let node = self.client.nodes.numbered(self.node);
            let answers = call::<O>(&self.client, node, &mut self.batch.requests, &self.batch.ids).await;
            self.learn(&answers, asked_at.elapsed());
            self.tell(&answers);
            self.reply(answers, asked_at).start();
        }
        self.node().batcher::<O>().give_back(self.batch.permits, self.batch.permits_kib);
        self.batch = Batch::none();
    }

    /// Teaches memory the ids that are done by the store's answers. (A granted id is learned by the
    /// caller that takes it. An answer beside a flight is not learned at all: it may be given
    /// back.)
    fn learn(&self, answers: &[Answer<O>], took: Duration) {
        let (mut start, mut learned) = (0, Vec::with_capacity(answers.len()));
        let mut recipients = self.batch.recipients.iter().peekable();
        while let Some(Recipient { memory, len, .. }) = recipients.next() {
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
            self.client.lost_attempts.doubt(memory, unknown::<O>(ids, answers));
            // Together with the next answers for the same memory.
            if recipients.peek().is_none_or(|next| !Arc::ptr_eq(&next.memory, memory)) {
                self.client.lost_attempts.teach(memory, &learned);
                learned.clear();
            }
        }
    }

    /// Tells the followers.
    fn tell(&mut self, answers: &[Answer<O>]) {
        let Some(single_flight) = O::single_flight(&self.client.single_flights) else { return };
        for (answer, (request, flight)) in answers.iter().zip(self.batch.requests.iter().zip(&self.batch.flights)) {
            let followers = if answer.as_ref().is_ok_and(O::is_granted) {
                single_flight.granted(*flight).unwrap_or_default()
            } else {
                single_flight.land(*flight)
            };
            for follower in followers {
                let (answer, key, fingerprint) = (answer.clone(), O::key(request).clone(), O::fingerprint(request));
                // A follower that is gone gets nothing.
                let _ = follower.send(Some(SharedAnswer { answer, key, fingerprint }));
            }
        }
    }

    /// Tells the callers. Returns the grants to callers that are gone, which are to be given back.
    fn reply(&mut self, answers: Vec<Answer<O>>, asked_at: Instant) -> GivingBack<O> {
        let mut back = GivingBack::of(&self.client, std::iter::empty());
        let mut answered = std::mem::take(&mut self.batch.requests).into_iter().zip(answers);
        let mut flights = std::mem::take(&mut self.batch.flights).into_iter();
        for Recipient { len, reply, .. } in std::mem::take(&mut self.batch.recipients) {
            let theirs = flights.by_ref().take(len);
            if let Err(gone) = reply.send(Answered { asked: OneOrMany::take(len, &mut answered), asked_at }) {
                back = back.and(GivingBack::of(&self.client, gone.asked.into_iter().zip(theirs)));
            } else {
                theirs.for_each(drop);
            }
        }
        back
    }
}
