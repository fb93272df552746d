//! Asking the store, one id or many, together with others who ask now.

use super::driver::{Answer, Told, ended, is_done, unknown};
use super::few::{Few, all};
use super::flights::{Flight, Flights, Turn};
use super::inner::Inner;
use super::led::lead;
use super::memory::Memory;
use super::nodes::{OfNode, in_order};
use super::operation::Operation;
use crate::digest::Digest;
use crate::store::{ErrorKind, StoreError};
use std::sync::Arc;

/// Ids that were joined and are not asked about yet: if the caller goes, those who follow ask.
struct Joined<'l, O: Operation> {
    shared: Option<&'l Flights<Told<O>>>,
    flights: Vec<Flight>,
}

impl<O: Operation> Drop for Joined<'_, O> {
    fn drop(&mut self) {
        self.shared.into_iter().for_each(|shared| self.flights.drain(..).for_each(|it| shared.land_untold(it)));
    }
}

/// A caller who asks itself. If it is dropped on the way, nobody knows what came of it.
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
    /// Whether to ask about an id, or to wait for whoever does.
    fn join<O: Operation>(&self, id: Digest) -> Turn<Told<O>> {
        O::flights(&self.shared).map_or_else(|| Turn::Leads(Flight::aside(id)), |shared| shared.join(id))
    }

    /// Asks about one id.
    pub(super) async fn ask_one<O: Operation>(
        self: &Arc<Self>,
        memory: &Arc<Memory>,
        request: O::Request,
        id: Digest,
    ) -> Answer<O> {
        if self.answers_at_once {
            return self.ask_at_once::<O>(memory, &mut [request], &[id]).await.pop().unwrap_or_else(|| Err(ended()));
        }
        let flight = loop {
            let told = match self.join::<O>(id) {
                Turn::Leads(flight) => break flight,
                Turn::Follows(told) => told,
            };
            match told.await {
                Ok(Some(told)) if told.answers(&request) => {
                    return told.answer.map(|answer| O::shared(answer, &request));
                }
                // That question is over, and it was another one, or nobody has its answer.
                Ok(_) => {}
                Err(_) => return Err(ended()),
            }
        };
        let node = self.node(O::key(&request));
        let (lane, asked) = (node.lane::<O>(), Few::One((request, flight)));
        let room = match lane.try_room(asked.as_slice()) {
            Some(room) => room,
            None => {
                let mut joined = Joined { shared: O::flights(&self.shared), flights: vec![flight] };
                let room = lane.room(asked.as_slice()).await.ok_or_else(closed)?;
                joined.flights.clear();
                room
            }
        };
        let answered = lead::<O>(self, node, memory, asked, room).answer().await?;
        answered.asked.into_iter().next().map_or_else(|| Err(ended()), |(_, answer)| answer)
    }

    /// Asks a store that [answers at once](Store::answers_at_once): nobody comes meanwhile, and nobody is dropped before the answer is there.
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

    /// Asks about many, in order.
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
        let mut answers = match parts.pop() {
            Some(part) if parts.is_empty() => vec![part.await],
            last => all(parts.into_iter().chain(last)).await,
        };
        for (place, told, request, id) in follows {
            let answer = match told.await {
                Ok(Some(told)) if told.answers(&request) => told.answer.map(|answer| O::shared(answer, &request)),
                Ok(_) => self.ask_one::<O>(memory, request, id).await,
                Err(_) => Err(ended()),
            };
            answers.push((vec![place], vec![answer]));
        }
        in_order(count, answers)
    }

    /// Asks one node about many ids, each of which was joined; answers, and where they belong.
    fn ask_node<'i, O: Operation>(
        self: &'i Arc<Self>,
        memory: &'i Arc<Memory>,
        part: OfNode<'i, (O::Request, Flight)>,
    ) -> impl Future<Output = (Vec<usize>, Vec<Answer<O>>)> + use<'i, O> {
        // From now on, not from when it is polled.
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
            // Those that there was no room for any more.
            drop(joined);
            let (mut answers, mut otherwise) = (Vec::with_capacity(part.places.len()), closed());
            for led in leads {
                match led.answer().await {
                    Ok(answered) => answers.extend(answered.asked.into_iter().map(|(_, answer)| answer)),
                    Err(error) => {
                        otherwise = error;
                        break;
                    }
                }
            }
            answers.resize_with(part.places.len(), || Err(otherwise.clone()));
            (part.places, answers)
        }
    }
}
