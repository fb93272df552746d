//! Grants to callers that are gone, which are given back.

use super::answers::Answer;
use super::batchers::Batched;
use super::client::Client;
use crate::tiered::breaker::BreakerState;
use crate::tiered::single_flight::Flight;
use std::sync::Arc;
use std::time::Duration;

/// Grants to callers that are gone. Their ids are in flight until that is settled:
///
/// - A caller that waits for one by then, or comes within a moment (a caller that gave up and asks
///   again), uses the same number, and is granted the id as the first one was. Nothing is sent.
/// - Otherwise the store is asked to take it back. If that fails, the request may still be on its
///   way, and the number is not used again: the request could take back an id that was granted
///   twice by it.
pub(super) struct GivingBack<O: Batched> {
    client: Arc<Client>,
    granted: Vec<(O::Request, O::Answer)>,
    flights: Vec<Flight>,
    /// True if the store was asked.
    sent: bool,
    /// Flags of the grants that the store has taken back.
    undone: Vec<bool>,
}

/// The time for callers that ask again at once.
const MOMENT: Duration = Duration::from_millis(5);

impl<O: Batched> GivingBack<O> {
    /// Collects the granted ones among these answers.
    pub(super) fn of(client: &Arc<Client>, gone: impl Iterator<Item = ((O::Request, Answer<O>), Flight)>) -> Self {
        let granted = |((request, answer), flight): ((O::Request, Answer<O>), Flight)| {
            Some(((request, answer.ok().filter(O::is_granted)?), flight))
        };
        let (granted, flights) = gone.filter_map(granted).unzip();
        GivingBack { client: Arc::clone(client), granted, flights, sent: false, undone: Vec::new() }
    }

    /// Adds the grants of another one.
    pub(super) fn and(mut self, mut other: Self) -> Self {
        self.granted.append(&mut other.granted);
        self.flights.append(&mut other.flights);
        self
    }

    /// Settles the grants. Those that exceed the limit are left for callers with the same number,
    /// too.
    pub(super) fn start(self) {
        let Some(back) = self.hand_over() else { return };
        if let Some(permits) = back.client.may_give_back(back.granted.len()) {
            let runtime = back.client.runtime.clone();
            runtime.spawn(async move {
                let _permits = permits;
                tokio::time::sleep(MOMENT).await;
                if let Some(back) = back.hand_over() {
                    back.give_back().await;
                }
            });
        }
    }

    /// Returns the grants that no caller waits for, if there are any; the rest is settled.
    fn hand_over(mut self) -> Option<Self> {
        let single_flight = O::single_flight(&self.client.single_flights)?;
        let granted = std::mem::take(&mut self.granted).into_iter().zip(std::mem::take(&mut self.flights));
        // A grant that was made beside a flight is not sent: another caller may have been granted
        // the id since.
        let is_awaited = |flight: Flight| flight.is_aside() || single_flight.is_awaited(flight);
        let (awaited, back): (Vec<_>, Vec<_>) = granted.partition(|(_, flight)| is_awaited(*flight));
        let of = |parts: Vec<_>| {
            let (granted, flights) = parts.into_iter().unzip();
            GivingBack { client: Arc::clone(&self.client), granted, flights, sent: false, undone: Vec::new() }
        };
        drop::<Self>(of(awaited));
        (!back.is_empty()).then(|| of(back))
    }

    /// Gives back in one call, once. A mark that the store does not confirm to be gone is taken
    /// back in the background; a claim's lease ends.
    async fn give_back(mut self) {
        let Some(first) = self.granted.first() else { return };
        if self.client.nodes.node(O::key(&first.0)).breaker().state() == BreakerState::Open {
            return;
        }
        self.sent = true;
        let undo = O::undo(&*self.client.caller.store, &self.granted);
        self.undone = tokio::time::timeout(self.client.caller.timeout, undo).await.unwrap_or_default();
    }
}

impl<O: Batched> Drop for GivingBack<O> {
    fn drop(&mut self) {
        for (at, (request, _)) in self.granted.iter_mut().enumerate() {
            if self.undone.get(at).is_some_and(|undone| *undone) {
                continue;
            }
            O::lost(&self.client.lost_marks, request, self.sent);
            if !self.sent
                && let Some(attempt) = O::attempt(request)
            {
                self.client.lost_attempts.remember([(self.flights[at].id, *attempt)]);
            }
        }
        // After that, so that the next caller that asks uses the number.
        if let Some(single_flight) = O::single_flight(&self.client.single_flights) {
            self.flights.iter().for_each(|flight| single_flight.land_untold(*flight));
        }
    }
}
