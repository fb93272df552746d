//! Asking the store, one id or many, together with others who ask now.

use super::driver::{Answer, Told, completed, ended, lead};
use super::few::{Few, all};
use super::flights::Flights;
use super::inner::Inner;
use super::memory::Memory;
use super::nodes::{OfNode, in_order};
use super::operation::Operation;
use crate::digest::Digest;
use crate::store::{ErrorKind, StoreError};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Ids that were joined and are not asked about yet: if the caller goes, those who follow ask.
struct Joined<'l, O: Operation> {
    flights: Option<&'l Flights<Told<O>>>,
    ids: Vec<Digest>,
}

impl<O: Operation> Drop for Joined<'_, O> {
    fn drop(&mut self) {
        if let Some(flights) = self.flights {
            // Whoever is gone need not know.
            self.ids.iter().flat_map(|id| flights.land(*id)).for_each(|tell| drop(tell.send(None)));
        }
    }
}

fn closed() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down")
}

impl Inner {
    /// Whoever is told what others ask about an id. Whoever is not must ask.
    fn join<O: Operation>(&self, id: Digest) -> Option<oneshot::Receiver<Option<Told<O>>>> {
        O::flights(&self.shared)?.join(id)
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
        while let Some(told) = self.join::<O>(id) {
            match told.await {
                Ok(Some(told)) if told.answers(&request) => {
                    return told.answer.map(|answer| O::shared(answer, &request));
                }
                // That question is over, and it was another one, or nobody has its answer.
                Ok(_) => {}
                Err(_) => return Err(ended()),
            }
        }
        let node = self.node(O::key(&request));
        let (lane, asked) = (node.lane::<O>(), Few::One((request, id)));
        let room = match lane.try_room(asked.as_slice()) {
            Some(room) => room,
            None => {
                let mut joined = Joined { flights: O::flights(&self.shared), ids: vec![id] };
                let room = lane.room(asked.as_slice()).await.ok_or_else(closed)?;
                joined.ids.clear();
                room
            }
        };
        let answered = lead::<O>(self, node, memory, asked, room).answer().await?;
        answered.into_iter().next().map_or_else(|| Err(ended()), |(_, answer)| answer)
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
            let answered = self.call::<O>(node, requests, ids).await;
            let took = asked_at.elapsed();
            memory.learn(&completed::<O>(memory, requests, ids, &answered, took).collect::<Vec<_>>());
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
                Some(told) => follows.push((place, told, request, id)),
                None => asked.push((place, (request, id))),
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
        part: OfNode<'i, (O::Request, Digest)>,
    ) -> impl Future<Output = (Vec<usize>, Vec<Answer<O>>)> + use<'i, O> {
        // From now on, not from when it is polled.
        let ids = part.asked.iter().map(|(_, id)| *id).collect();
        let mut joined = Joined { flights: O::flights(&self.shared), ids };
        async move {
            let (lane, mut leads) = (part.node.lane::<O>(), Vec::new());
            let mut asked = part.asked.into_iter();
            while asked.len() > 0 {
                let some: Vec<_> = asked.by_ref().take(lane.batch()).collect();
                let Some(room) = lane.room(&some).await else { break };
                joined.ids.drain(..some.len());
                leads.push(lead::<O>(self, part.node, memory, Few::Many(some), room));
            }
            // Those that there was no room for any more.
            drop(joined);
            let (mut answers, mut otherwise) = (Vec::with_capacity(part.places.len()), closed());
            for led in leads {
                match led.answer().await {
                    Ok(answered) => answers.extend(answered.into_iter().map(|(_, answer)| answer)),
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
