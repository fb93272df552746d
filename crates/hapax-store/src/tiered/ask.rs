//! Requests to the store, for one id or many, which share calls with concurrent requests of other
//! callers.

use super::driver::{Answer, Told, ended, is_done, unknown};
use super::few::{Few, all};
use super::flights::{Flight, Flights, Turn};
use super::inner::Inner;
use super::led::{Led, lead};
use super::nodes::{OfNode, in_order};
use super::operation::Operation;
use crate::{ErrorKind, StoreError};
use hapax::Digest;
use hapax::tier::Memory;
use std::sync::Arc;

/// Ids that were joined and are not requested yet. If the leading caller is dropped, its followers
/// ask themselves.
struct Joined<'l, O: Operation> {
    shared: Option<&'l Flights<Told<O>>>,
    flights: Vec<Flight>,
}

impl<O: Operation> Drop for Joined<'_, O> {
    fn drop(&mut self) {
        self.shared.into_iter().for_each(|shared| self.flights.drain(..).for_each(|it| shared.land_untold(it)));
    }
}

/// An answer, or one that is given back if it is dropped.
enum Untaken<'i, O: Operation> {
    /// An answer that granted nothing.
    Told(Answer<O>),
    Led(Led<'i, O>),
}

/// The requests to one node with their answers, in the order of these places.
struct Asked<'i, O: Operation> {
    places: Vec<usize>,
    leads: Vec<Led<'i, O>>,
    /// The error of the requests without an answer.
    otherwise: StoreError,
}

/// A caller that calls the store itself. If it is dropped on the way, the outcome is unknown.
struct AsksAtOnce<'a> {
    inner: &'a Inner,
    memory: &'a Memory,
    unknown: &'a [Digest],
}

impl Drop for AsksAtOnce<'_> {
    fn drop(&mut self) {
        self.inner.doubt(self.memory, self.unknown.iter().copied());
    }
}

fn closed() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down")
}

impl Inner {
    /// Decides whether a caller leads the request for an id, or follows another caller's.
    fn join<O: Operation>(&self, id: Digest) -> Turn<Told<O>> {
        O::flights(&self.shared).map_or_else(|| Turn::Leads(Flight::aside(id)), |shared| shared.join(id))
    }

    /// Requests one id.
    pub(super) async fn ask_one<O: Operation>(
        self: &Arc<Self>,
        memory: &Arc<Memory>,
        request: O::Request,
        id: Digest,
    ) -> Answer<O> {
        if self.answers_at_once {
            return self.ask_at_once::<O>(memory, &mut [request], &[id]).await.pop().unwrap_or_else(|| Err(ended()));
        }
        match self.ask_untaken::<O>(memory, request, id).await {
            Untaken::Told(answer) => answer,
            Untaken::Led(led) => led.take().next().unwrap_or_else(|| Err(ended())),
        }
    }

    /// Requests one id, where others may request it, too. A granted id is not the caller's yet.
    async fn ask_untaken<'i, O: Operation>(
        self: &'i Arc<Self>,
        memory: &'i Arc<Memory>,
        request: O::Request,
        id: Digest,
    ) -> Untaken<'i, O> {
        let flight = loop {
            let told = match self.join::<O>(id) {
                Turn::Leads(flight) => break flight,
                Turn::Follows(told) => told,
            };
            match told.await {
                Ok(Some(told)) if told.answers(&request) => {
                    return Untaken::Told(told.answer.map(|answer| O::shared(answer, &request)));
                }
                // The request of the other caller is over; it was a different request, or its
                // answer was lost.
                Ok(_) => {}
                Err(_) => return Untaken::Told(Err(ended())),
            }
        };
        let node = self.node(O::key(&request));
        let (lane, asked) = (node.lane::<O>(), Few::One((request, flight)));
        let room = match lane.try_room(asked.as_slice()) {
            Some(room) => room,
            None => {
                let mut joined = Joined { shared: O::flights(&self.shared), flights: vec![flight] };
                let Some(room) = lane.room(asked.as_slice()).await else { return Untaken::Told(Err(closed())) };
                joined.flights.clear();
                room
            }
        };
        let mut led = lead::<O>(self, node, memory, asked, room);
        match led.receive().await {
            Ok(()) => Untaken::Led(led),
            Err(error) => Untaken::Told(Err(error)),
        }
    }

    /// Calls a store that [answers at once](Store::answers_at_once): no other caller comes
    /// meanwhile, and no caller is dropped before the answer is there.
    async fn ask_at_once<O: Operation>(
        &self,
        memory: &Memory,
        requests: &mut [O::Request],
        ids: &[Digest],
    ) -> Vec<Answer<O>> {
        let mut answers = Vec::with_capacity(requests.len());
        while answers.len() < requests.len() {
            let rest = &mut requests[answers.len()..];
            let node = self.node(O::key(&rest[0]));
            let is_theirs = |request: &&mut O::Request| self.is_of(node, O::key(request));
            let len = rest.iter_mut().take(node.lane::<O>().batch()).take_while(is_theirs).count();
            let (requests, ids) = (&mut rest[..len], &ids[answers.len()..][..len]);
            if node.lane::<O>().is_closed() {
                answers.extend(requests.iter().map(|_| Err(closed())));
                continue;
            }
            let asked_at = tokio::time::Instant::now();
            let mut asks = AsksAtOnce { inner: self, memory, unknown: if O::GRANTS { ids } else { &[] } };
            let answered = self.call::<O>(node, requests, ids).await;
            asks.unknown = &[];
            let took = asked_at.elapsed();
            self.doubt(memory, unknown::<O>(ids, &answered));
            let done = requests.iter().zip(ids).zip(&answered).filter_map(|((request, id), answer)| {
                is_done::<O>(memory, request, answer.as_ref().ok()?, took).then_some(*id)
            });
            let learned: Vec<Digest> = done.collect();
            self.teach(memory, &learned);
            answers.extend(answered);
        }
        answers
    }

    /// Requests many ids, in order.
    pub(super) async fn ask<O: Operation>(
        self: &Arc<Self>,
        memory: &Arc<Memory>,
        requests: Vec<(O::Request, Digest)>,
    ) -> Vec<Answer<O>> {
        if self.answers_at_once {
            let (mut requests, ids): (Vec<O::Request>, Vec<Digest>) = requests.into_iter().unzip();
            return self.ask_at_once::<O>(memory, &mut requests, &ids).await;
        }
        let count = requests.len();
        let (mut asked, mut follows) = (Vec::new(), Vec::new());
        for (place, (request, id)) in requests.into_iter().enumerate() {
            match self.join::<O>(id) {
                Turn::Follows(told) => follows.push((place, told, request, id)),
                Turn::Leads(flight) => asked.push((place, (request, flight))),
            }
        }
        let parts = self.by_node(asked.into_iter(), |(request, _)| O::key(request));
        let mut parts: Vec<_> = parts.into_iter().map(|part| self.ask_node::<O>(memory, part)).collect();
        let asked = match parts.pop() {
            Some(part) if parts.is_empty() => vec![part.await],
            last => all(parts.into_iter().chain(last)).await,
        };
        let mut followed = Vec::with_capacity(follows.len());
        for (place, told, request, id) in follows {
            let answer = match told.await {
                Ok(Some(told)) if told.answers(&request) => {
                    Untaken::Told(told.answer.map(|answer| O::shared(answer, &request)))
                }
                Ok(_) => self.ask_untaken::<O>(memory, request, id).await,
                Err(_) => Untaken::Told(Err(ended())),
            };
            followed.push((place, answer));
        }
        // All answers are there, and nothing else is awaited: only now they are the caller's.
        let asked = asked.into_iter().map(|part| {
            let mut answers: Vec<_> = part.leads.into_iter().flat_map(Led::take).collect();
            answers.resize_with(part.places.len(), || Err(part.otherwise.clone()));
            (part.places, answers)
        });
        let followed = followed.into_iter().map(|(place, answer)| {
            let answer = match answer {
                Untaken::Told(answer) => answer,
                Untaken::Led(led) => led.take().next().unwrap_or_else(|| Err(ended())),
            };
            (vec![place], vec![answer])
        });
        in_order(count, asked.chain(followed).collect())
    }

    /// Requests many ids, each of which was joined, from one node.
    fn ask_node<'i, O: Operation>(
        self: &'i Arc<Self>,
        memory: &'i Arc<Memory>,
        part: OfNode<'i, (O::Request, Flight)>,
    ) -> impl Future<Output = Asked<'i, O>> + use<'i, O> {
        // Held from the call on, not from the first poll.
        let flights = part.asked.iter().map(|(_, flight)| *flight).collect();
        let mut joined = Joined { shared: O::flights(&self.shared), flights };
        async move {
            let (lane, mut leads) = (part.node.lane::<O>(), Vec::new());
            let mut asked = part.asked.into_iter();
            while asked.len() > 0 {
                let some: Vec<_> = asked.by_ref().take(lane.batch()).collect();
                let Some(room) = lane.room(&some).await else { break };
                joined.flights.drain(..some.len());
                leads.push(lead::<O>(self, part.node, memory, Few::Many(some), room));
            }
            // The requests for which there was no room any more.
            drop(joined);
            let (mut received, mut otherwise) = (0, closed());
            for led in &mut leads {
                match led.receive().await {
                    Ok(()) => received += 1,
                    Err(error) => {
                        otherwise = error;
                        break;
                    }
                }
            }
            leads.truncate(received);
            Asked { places: part.places, leads, otherwise }
        }
    }
}
