//! A caller's own requests on their way: the answer is taken by the caller, or given back if the
//! caller is gone.

use super::breaker::BreakerState;
use super::driver::{Answer, Answered, ended, start};
use super::few::Few;
use super::flights::{Flight, Turn};
use super::inner::Inner;
use super::lane::{Group, Room};
use super::nodes::Node;
use super::operation::{Claims, Operation};
use crate::StoreError;
use hapax::Digest;
use hapax::tier::Memory;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A caller's requests. If it is dropped before the answer is taken, granted ids are given back.
pub(super) struct Led<'i, O: Operation> {
    inner: &'i Arc<Inner>,
    memory: &'i Arc<Memory>,
    answered: oneshot::Receiver<Answered<O>>,
    /// The received answers, which are not the caller's yet: they wait for answers of others.
    received: Option<Answered<O>>,
    /// The flights that this caller has to end.
    flights: Option<Few<Flight>>,
}

/// Adds requests to a node's lane.
pub(super) fn lead<'i, O: Operation>(
    inner: &'i Arc<Inner>,
    node: &Node,
    memory: &'i Arc<Memory>,
    asked: Few<(O::Request, Flight)>,
    room: Room<'_>,
) -> Led<'i, O> {
    let (reply, answered) = oneshot::channel();
    let flights = O::flights(&inner.shared).map(|_| match &asked {
        Few::One((_, flight)) => Few::One(*flight),
        Few::Many(asked) => Few::Many(asked.iter().map(|(_, flight)| *flight).collect()),
    });
    if node.lane::<O>().push(Group { memory: Arc::clone(memory), asked, reply }, room) {
        start::<O>(inner, node);
    }
    Led { inner, memory, answered, received: None, flights }
}

impl<O: Operation> Led<'_, O> {
    /// Waits until the answer is there. It is not the caller's before it is [taken](Led::take). A
    /// caller with many requests takes its answers when all are there: it may give up before.
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
    fn learn(&self, answered: &Answered<O>, flights: &Few<Flight>) {
        let mut learned: Few<Digest> = Few::Many(Vec::new());
        for ((request, answer), flight) in answered.asked.as_slice().iter().zip(flights.as_slice()) {
            let Some(granted) = answer.as_ref().ok().filter(|answer| O::is_granted(answer)) else { continue };
            if let Some(flights) = O::flights(&self.inner.shared) {
                flights.land_untold(*flight);
            }
            // It may have waited here for any time.
            let late = answered.asked_at.elapsed().saturating_sub(self.inner.patience());
            let expires_in = O::completed(request, granted, Duration::ZERO).map(|it| it.saturating_sub(late));
            if expires_in.is_some_and(|expires_in| self.memory.may_learn(expires_in)) {
                learned = learned.with(flight.id);
            }
        }
        self.inner.teach(self.memory, learned.as_slice());
    }
}

impl<O: Operation> Drop for Led<'_, O> {
    fn drop(&mut self) {
        let Some(flights) = self.flights.take() else { return };
        // From now on the driver finds no caller, and has to give back a granted id.
        self.answered.close();
        let gone = self.received.take().map_or_else(|| self.answered.try_recv(), Ok);
        // Before the caller can ask again.
        let shared = O::flights(&self.inner.shared);
        shared.into_iter().for_each(|shared| flights.as_slice().iter().for_each(|flight| shared.leave(*flight)));
        if let Ok(gone) = gone {
            GivingBack::<O>::of(self.inner, gone.asked.into_iter().zip(flights)).start();
        }
    }
}

/// An id whose claim was dropped, and is being released: callers in this process that want it wait
/// for that.
pub(super) struct Leaving {
    inner: Arc<Inner>,
    flight: Flight,
}

impl Leaving {
    pub(super) fn begin(inner: &Arc<Inner>, id: Digest) -> Self {
        let shared = Claims::flights(&inner.shared);
        let flight = match shared.map(|shared| (shared, shared.join(id))) {
            Some((shared, Turn::Leads(flight))) => {
                shared.leave(flight);
                flight
            }
            // Another caller asks already, and is told whether it is in progress.
            _ => Flight::aside(id),
        };
        Leaving { inner: Arc::clone(inner), flight }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        Claims::flights(&self.inner.shared).into_iter().for_each(|shared| shared.land_untold(self.flight));
    }
}

/// Grants to callers that are gone. Their ids are in flight until that is settled:
///
/// - A caller that waits for one by then, or comes within a moment (a caller that gave up and asks
///   again), uses the same number, and is granted the id as the first one was. Nothing is sent.
/// - Otherwise the store is asked to take it back. If that fails, the request may still be on its
///   way, and the number is not used again: the request could take back an id that was granted
///   twice by it.
pub(super) struct GivingBack<O: Operation> {
    inner: Arc<Inner>,
    granted: Vec<(O::Request, O::Answer)>,
    flights: Vec<Flight>,
    /// True if the store was asked.
    sent: bool,
    /// Flags of the grants that the store has taken back.
    undone: Vec<bool>,
}

/// The time for callers that ask again at once.
const MOMENT: Duration = Duration::from_millis(5);

impl<O: Operation> GivingBack<O> {
    /// Collects the granted ones among these answers.
    pub(super) fn of(inner: &Arc<Inner>, gone: impl Iterator<Item = ((O::Request, Answer<O>), Flight)>) -> Self {
        let granted = |((request, answer), flight): ((O::Request, Answer<O>), Flight)| {
            Some(((request, answer.ok().filter(O::is_granted)?), flight))
        };
        let (granted, flights) = gone.filter_map(granted).unzip();
        GivingBack { inner: Arc::clone(inner), granted, flights, sent: false, undone: Vec::new() }
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
        let ids = u32::try_from(back.granted.len()).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(&back.inner.dropped).try_acquire_many_owned(ids) {
            let runtime = back.inner.runtime.clone();
            runtime.spawn(async move {
                let _room = room;
                tokio::time::sleep(MOMENT).await;
                if let Some(back) = back.hand_over() {
                    back.give_back().await;
                }
            });
        }
    }

    /// Returns the grants that no caller waits for, if there are any; the rest is settled.
    fn hand_over(mut self) -> Option<Self> {
        let shared = O::flights(&self.inner.shared)?;
        let granted = std::mem::take(&mut self.granted).into_iter().zip(std::mem::take(&mut self.flights));
        // A grant that was made beside a flight is not sent: another caller may have been granted
        // the id since.
        let is_awaited = |flight: Flight| flight.is_aside() || shared.is_awaited(flight);
        let (awaited, back): (Vec<_>, Vec<_>) = granted.partition(|(_, flight)| is_awaited(*flight));
        let of = |parts: Vec<_>| {
            let (granted, flights) = parts.into_iter().unzip();
            GivingBack { inner: Arc::clone(&self.inner), granted, flights, sent: false, undone: Vec::new() }
        };
        drop::<Self>(of(awaited));
        (!back.is_empty()).then(|| of(back))
    }

    /// Gives back in one call, once. A mark that the store does not confirm to be gone is taken
    /// back in the background; a claim's lease ends.
    async fn give_back(mut self) {
        let Some(first) = self.granted.first() else { return };
        if self.inner.node(O::key(&first.0)).breaker().state() == BreakerState::Open {
            return;
        }
        self.sent = true;
        let undo = O::undo(&self.inner, &self.granted);
        self.undone = tokio::time::timeout(self.inner.calls.timeout, undo).await.unwrap_or_default();
    }
}

impl<O: Operation> Drop for GivingBack<O> {
    fn drop(&mut self) {
        for (at, (request, _)) in self.granted.iter_mut().enumerate() {
            if self.undone.get(at).is_some_and(|undone| *undone) {
                continue;
            }
            O::lost(&self.inner, request, self.sent);
            if !self.sent
                && let Some(attempt) = O::attempt(request)
            {
                self.inner.remember([(self.flights[at].id, *attempt)]);
            }
        }
        // After that, so that the next caller that asks uses the number.
        if let Some(shared) = O::flights(&self.inner.shared) {
            self.flights.iter().for_each(|flight| shared.land_untold(*flight));
        }
    }
}
