//! A caller's own requests on their way: the answer is taken by the caller, or given back if the
//! caller is gone.

use super::answers::{Answer, Answered, ended};
use super::batcher::{Group, Permits};
use super::batchers::Batched;
use super::client::Client;
use super::driver::start;
use super::giving_back::GivingBack;
use super::nodes::Node;
use crate::StoreError;
use crate::tiered::one_or_many::OneOrMany;
use crate::tiered::single_flight::Flight;
use hapax::seam::{Digest, Memory};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A caller's requests. If it is dropped before the answer is taken, granted ids are given back.
pub(super) struct Pending<'c, O: Batched> {
    client: &'c Arc<Client>,
    memory: &'c Arc<Memory>,
    answered: oneshot::Receiver<Answered<O>>,
    /// The received answers, which are not the caller's yet: they wait for answers of others.
    received: Option<Answered<O>>,
    /// The flights that this caller has to end.
    flights: Option<OneOrMany<Flight>>,
}

/// Adds requests to a node's batcher.
pub(super) fn send<'c, O: Batched>(
    client: &'c Arc<Client>,
    node: &Node,
    memory: &'c Arc<Memory>,
    asked: OneOrMany<(O::Request, Flight)>,
    permits: Permits<'_>,
) -> Pending<'c, O> {
    let (reply, answered) = oneshot::channel();
    let flights = O::single_flight(&client.single_flights).map(|_| match &asked {
        OneOrMany::One((_, flight)) => OneOrMany::One(*flight),
        OneOrMany::Many(asked) => OneOrMany::Many(asked.iter().map(|(_, flight)| *flight).collect()),
    });
    if node.batcher::<O>().push(Group { memory: Arc::clone(memory), asked, reply }, permits) {
        start::<O>(client, node);
    }
    Pending { client, memory, answered, received: None, flights }
}

impl<O: Batched> Pending<'_, O> {
    /// Waits until the answer is there. It is not the caller's before it is
    /// [taken](Pending::take). A caller with many requests takes its answers when all are there: it
    /// may give up before.
    pub(super) async fn receive(&mut self) -> Result<(), StoreError> {
        if self.received.is_none() {
            self.received = Some((&mut self.answered).await.map_err(|_| ended())?);
        }
        Ok(())
    }

    /// Returns the answers that were received. From now on they are the caller's.
    pub(super) fn take(mut self) -> impl Iterator<Item = Answer<O>> {
        let received = self.received.take();
        if let (Some(answered), Some(flights)) = (&received, self.flights.take()) {
            self.learn(answered, &flights);
        }
        received.into_iter().flat_map(|answered| answered.asked.into_iter().map(|(_, answer)| answer))
    }

    /// Teaches memory the ids that are done. The caller that takes the answer does so, and not
    /// before: a caller that gives up must not find there what no caller was told.
    fn learn(&self, answered: &Answered<O>, flights: &OneOrMany<Flight>) {
        let mut learned: OneOrMany<Digest> = OneOrMany::Many(Vec::new());
        for ((request, answer), flight) in answered.asked.as_slice().iter().zip(flights.as_slice()) {
            let Some(granted) = answer.as_ref().ok().filter(|answer| O::is_granted(answer)) else { continue };
            if let Some(single_flight) = O::single_flight(&self.client.single_flights) {
                single_flight.land_untold(*flight);
            }
            // It may have waited here for any time.
            let late = answered.asked_at.elapsed().saturating_sub(self.client.caller.patience());
            let expires_in = O::completed(request, granted, Duration::ZERO).map(|it| it.saturating_sub(late));
            if expires_in.is_some_and(|expires_in| self.memory.may_learn(expires_in)) {
                learned = learned.with(flight.id);
            }
        }
        self.client.lost_attempts.teach(self.memory, learned.as_slice());
    }
}

impl<O: Batched> Drop for Pending<'_, O> {
    fn drop(&mut self) {
        let Some(flights) = self.flights.take() else { return };
        // From now on the driver finds no caller, and has to give back a granted id.
        self.answered.close();
        let gone = self.received.take().map_or_else(|| self.answered.try_recv(), Ok);
        // Before the caller can ask again.
        if let Some(single_flight) = O::single_flight(&self.client.single_flights) {
            flights.as_slice().iter().for_each(|flight| single_flight.leave(*flight));
        }
        if let Ok(gone) = gone {
            GivingBack::<O>::of(self.client, gone.asked.into_iter().zip(flights)).start();
        }
    }
}
