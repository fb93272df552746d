//! Asking the store, one id or many, together with others who ask now.

use super::few::Few;
use super::inner::Inner;
use super::lane::{Answer, Lane, completed, ended, lead};
use super::memory::Memory;
use super::operation::Operation;
use crate::digest::Digest;
use crate::store::{ErrorKind, StoreError};
use std::sync::Arc;

/// Ids that were joined and are not asked about yet: if the caller goes, those who follow ask.
struct Joined<'l, O: Operation> {
    lane: &'l Lane<O>,
    ids: Vec<Digest>,
}

impl<O: Operation> Drop for Joined<'_, O> {
    fn drop(&mut self) {
        self.lane.leave(&self.ids);
    }
}

fn closed() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down")
}

impl Inner {
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
        let lane = self.lane::<O>();
        while let Some(told) = lane.join(id) {
            match told.await {
                Ok(Some(told)) if told.answers(&request) => {
                    return told.answer.map(|answer| O::shared(answer, &request));
                }
                // That question is over, and it was another one, or nobody has its answer.
                Ok(_) => {}
                Err(_) => return Err(ended()),
            }
        }
        let asked = Few::One((request, id));
        let room = match lane.try_room(asked.as_slice()) {
            Some(room) => room,
            None => {
                let mut joined = Joined { lane, ids: vec![id] };
                let room = lane.room(asked.as_slice()).await.ok_or_else(closed)?;
                joined.ids.clear();
                room
            }
        };
        let answered = lead::<O>(self, memory, asked, room).answer().await?;
        answered.into_iter().next().map_or_else(|| Err(ended()), |(_, answer)| answer)
    }

    /// Asks a store that [answers at once](Store::answers_at_once): nobody comes meanwhile, and nobody is dropped before the answer is there.
    async fn ask_at_once<O: Operation>(
        &self,
        memory: &Memory,
        requests: &mut [O::Request],
        ids: &[Digest],
    ) -> Vec<Answer<O>> {
        if self.lane::<O>().is_closed() {
            return requests.iter().map(|_| Err(closed())).collect();
        }
        let mut answers = Vec::with_capacity(requests.len());
        let batch = self.lane::<O>().batch();
        for (requests, ids) in requests.chunks_mut(batch).zip(ids.chunks(batch)) {
            let asked_at = tokio::time::Instant::now();
            let answered = self.call::<O>(requests, ids).await;
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
        let lane = self.lane::<O>();
        let mut answers: Vec<Option<Answer<O>>> = requests.iter().map(|_| None).collect();
        let (mut asked, mut places) = (Vec::new(), Vec::new());
        let mut follows = Vec::new();
        let mut joined = Joined { lane, ids: Vec::new() };
        for (place, (request, id)) in requests.into_iter().enumerate() {
            match lane.join(id) {
                Some(told) => follows.push((place, told, request, id)),
                None => {
                    joined.ids.push(id);
                    asked.push((request, id));
                    places.push(place);
                }
            }
        }
        let mut leads = Vec::new();
        let mut asked = asked.into_iter();
        while asked.len() > 0 {
            let part: Vec<_> = asked.by_ref().take(lane.batch()).collect();
            let Some(room) = lane.room(&part).await else { break };
            joined.ids.drain(..part.len());
            leads.push(lead::<O>(self, memory, Few::Many(part), room));
        }
        // Those that there was no room for any more.
        drop(joined);
        let mut places = places.into_iter();
        for led in leads {
            match led.answer().await {
                Ok(answered) => {
                    answered.into_iter().zip(places.by_ref()).for_each(|((_, answer), at)| answers[at] = Some(answer));
                }
                Err(error) => {
                    return answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(error.clone()))).collect();
                }
            }
        }
        for (place, told, request, id) in follows {
            answers[place] = Some(match told.await {
                Ok(Some(told)) if told.answers(&request) => told.answer.map(|answer| O::shared(answer, &request)),
                Ok(_) => self.ask_one::<O>(memory, request, id).await,
                Err(_) => Err(ended()),
            });
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(closed()))).collect()
    }
}
