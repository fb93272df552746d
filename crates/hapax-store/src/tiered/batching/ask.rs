//! Requests to the store, for one id or many, which share calls with concurrent requests of other
//! callers.

use super::answers::{Answer, SharedAnswer, closed, ended, is_done, unknown};
use super::batchers::Batched;
use super::call::call;
use super::client::Client;
use super::nodes::{OfNode, in_order};
use super::pending_request::{Pending, send};
use crate::StoreError;
use crate::tiered::join_all::join_all;
use crate::tiered::one_or_many::OneOrMany;
use crate::tiered::single_flight::{Flight, SingleFlight, Turn};
use hapax::seam::{Digest, Memory};
use std::sync::Arc;

/// Ids that were joined and are not requested yet. If the leading caller is dropped, its followers
/// ask themselves.
struct Joined<'l, O: Batched> {
    single_flight: Option<&'l SingleFlight<SharedAnswer<O>>>,
    flights: Vec<Flight>,
}

impl<O: Batched> Drop for Joined<'_, O> {
    fn drop(&mut self) {
        if let Some(single_flight) = self.single_flight {
            self.flights.drain(..).for_each(|flight| single_flight.land_untold(flight));
        }
    }
}

/// An answer, or one that is given back if it is dropped.
enum Untaken<'c, O: Batched> {
    /// An answer that granted nothing.
    Shared(Answer<O>),
    Pending(Pending<'c, O>),
}

impl<O: Batched> Untaken<'_, O> {
    fn take(self) -> Answer<O> {
        match self {
            Untaken::Shared(answer) => answer,
            Untaken::Pending(pending) => pending.take().next().unwrap_or_else(|| Err(ended())),
        }
    }
}

/// The requests to one node with their answers, in the order of these places.
struct Asked<'c, O: Batched> {
    places: Vec<usize>,
    pending: Vec<Pending<'c, O>>,
    /// The error of the requests without an answer.
    otherwise: StoreError,
}

/// A caller that calls the store itself. If it is dropped on the way, the outcome is unknown.
struct AsksAtOnce<'a> {
    client: &'a Client,
    memory: &'a Memory,
    unknown: &'a [Digest],
}

impl Drop for AsksAtOnce<'_> {
    fn drop(&mut self) {
        self.client.lost_attempts.doubt(self.memory, self.unknown.iter().copied());
    }
}

impl Client {
    /// Decides whether a caller leads the request for an id, or follows another caller's.
    fn join<O: Batched>(&self, id: Digest) -> Turn<SharedAnswer<O>> {
        O::single_flight(&self.single_flights)
            .map_or_else(|| Turn::Leads(Flight::aside(id)), |single_flight| single_flight.join(id))
    }

    /// Requests one id.
    pub(crate) async fn ask_one<O: Batched>(
        self: &Arc<Self>,
        memory: &Arc<Memory>,
        request: O::Request,
        id: Digest,
    ) -> Answer<O> {
        if self.caller.answers_at_once {
            return self.ask_at_once::<O>(memory, &mut [request], &[id]).await.pop().unwrap_or_else(|| Err(ended()));
        }
        self.ask_untaken::<O>(memory, request, id).await.take()
    }

    /// Requests one id, where others may request it, too. A granted id is not the caller's yet.
    async fn ask_untaken<'c, O: Batched>(
        self: &'c Arc<Self>,
        memory: &'c Arc<Memory>,
        request: O::Request,
        id: Digest,
    ) -> Untaken<'c, O> {
        let flight = loop {
            let told = match self.join::<O>(id) {
                Turn::Leads(flight) => break flight,
                Turn::Follows(told) => told,
            };
            if let Some(answer) = SharedAnswer::told(told.await, &request) {
                return Untaken::Shared(answer);
            }
        };
        let node = self.nodes.node(O::key(&request));
        let (batcher, asked) = (node.batcher::<O>(), OneOrMany::One((request, flight)));
        let permits = match batcher.try_permits(asked.as_slice()) {
            Some(permits) => permits,
            None => {
                let mut joined =
                    Joined { single_flight: O::single_flight(&self.single_flights), flights: vec![flight] };
                let Some(permits) = batcher.permits(asked.as_slice()).await else {
                    return Untaken::Shared(Err(closed()));
                };
                joined.flights.clear();
                permits
            }
        };
        let mut pending = send::<O>(self, node, memory, asked, permits);
        match pending.receive().await {
            Ok(()) => Untaken::Pending(pending),
            Err(error) => Untaken::Shared(Err(error)),
        }
    }

    /// Calls a store that [answers at once](crate::Store::answers_at_once): no other caller comes
    /// meanwhile, and no caller is dropped before the answer is there.
    async fn ask_at_once<O: Batched>(
        &self,
        memory: &Memory,
        requests: &mut [O::Request],
        ids: &[Digest],
    ) -> Vec<Answer<O>> {
        let mut answers = Vec::with_capacity(requests.len());
        while answers.len() < requests.len() {
            let rest = &mut requests[answers.len()..];
            let node = self.nodes.node(O::key(&rest[0]));
            let is_theirs = |request: &&mut O::Request| self.nodes.is_of(node, O::key(request));
            let len = rest.iter_mut().take(node.batcher::<O>().batch()).take_while(is_theirs).count();
            let (requests, ids) = (&mut rest[..len], &ids[answers.len()..][..len]);
            if node.batcher::<O>().is_closed() {
                answers.extend(requests.iter().map(|_| Err(closed())));
                continue;
            }
            let asked_at = tokio::time::Instant::now();
            let mut asks = AsksAtOnce { client: self, memory, unknown: if O::GRANTS { ids } else { &[] } };
            let answered = call::<O>(self, node, requests, ids).await;
            asks.unknown = &[];
            let took = asked_at.elapsed();
            self.lost_attempts.doubt(memory, unknown::<O>(ids, &answered));
            let done = requests.iter().zip(ids).zip(&answered).filter_map(|((request, id), answer)| {
                is_done::<O>(memory, request, answer.as_ref().ok()?, took).then_some(*id)
            });
            let learned: Vec<Digest> = done.collect();
            self.lost_attempts.teach(memory, &learned);
            answers.extend(answered);
        }
        answers
    }

    /// Requests many ids, in order.
    pub(crate) async fn ask<O: Batched>(
        self: &Arc<Self>,
        memory: &Arc<Memory>,
        requests: Vec<(O::Request, Digest)>,
    ) -> Vec<Answer<O>> {
        if self.caller.answers_at_once {
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
        let parts = self.nodes.by_node(asked.into_iter(), |(request, _)| O::key(request));
        let mut parts: Vec<_> = parts.into_iter().map(|part| self.ask_node::<O>(memory, part)).collect();
        let asked = match parts.pop() {
            Some(part) if parts.is_empty() => vec![part.await],
            last => join_all(parts.into_iter().chain(last)).await,
        };
        let mut followed = Vec::with_capacity(follows.len());
        for (place, told, request, id) in follows {
            let answer = match SharedAnswer::told(told.await, &request) {
                Some(answer) => Untaken::Shared(answer),
                None => self.ask_untaken::<O>(memory, request, id).await,
            };
            followed.push((place, answer));
        }
        // All answers are there, and nothing else is awaited: only now they are the caller's.
        let asked = asked.into_iter().map(|part| {
            let mut answers: Vec<_> = part.pending.into_iter().flat_map(Pending::take).collect();
            answers.resize_with(part.places.len(), || Err(part.otherwise.clone()));
            (part.places, answers)
        });
        let followed = followed.into_iter().map(|(place, answer)| (vec![place], vec![answer.take()]));
        in_order(count, asked.chain(followed).collect())
    }

    /// Requests many ids, each of which was joined, from one node.
    fn ask_node<'c, O: Batched>(
        self: &'c Arc<Self>,
        memory: &'c Arc<Memory>,
        part: OfNode<'c, (O::Request, Flight)>,
    ) -> impl Future<Output = Asked<'c, O>> + use<'c, O> {
        // Held from the call on, not from the first poll.
        let flights = part.asked.iter().map(|(_, flight)| *flight).collect();
        let mut joined = Joined { single_flight: O::single_flight(&self.single_flights), flights };
        async move {
            let (batcher, mut pending) = (part.node.batcher::<O>(), Vec::new());
            let mut asked = part.asked.into_iter();
            while asked.len() > 0 {
                let some: Vec<_> = asked.by_ref().take(batcher.batch()).collect();
                let Some(permits) = batcher.permits(&some).await else { break };
                joined.flights.drain(..some.len());
                pending.push(send::<O>(self, part.node, memory, OneOrMany::Many(some), permits));
            }
            // The requests that were not let in any more.
            drop(joined);
            let (mut received, mut otherwise) = (0, closed());
            for it in &mut pending {
                match it.receive().await {
                    Ok(()) => received += 1,
                    Err(error) => {
                        otherwise = error;
                        break;
                    }
                }
            }
            pending.truncate(received);
            Asked { places: part.places, pending, otherwise }
        }
    }
}
