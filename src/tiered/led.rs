//! A caller's own requests on their way: who takes the answer, and what becomes of it if nobody does.

use super::driver::{Answered, ended, start};
use super::few::Few;
use super::flights::Flight;
use super::inner::Inner;
use super::lane::{Group, Room};
use super::memory::Memory;
use super::nodes::Node;
use super::operation::Operation;
use crate::digest::Digest;
use crate::store::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A caller's requests. If it is dropped before it has the answer, what was granted is given back.
pub(super) struct Led<'i, O: Operation> {
    inner: &'i Arc<Inner>,
    memory: &'i Arc<Memory>,
    answered: oneshot::Receiver<Answered<O>>,
    /// Those that are this caller's to end.
    flights: Option<Few<Flight>>,
}

/// Puts requests where they are asked.
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
    Led { inner, memory, answered, flights }
}

impl<O: Operation> Led<'_, O> {
    pub(super) async fn answer(mut self) -> Result<Answered<O>, StoreError> {
        let answered = (&mut self.answered).await.map_err(|_| ended())?;
        if let Some(flights) = self.flights.take() {
            self.take(&answered, &flights);
        }
        Ok(answered)
    }

    /// From now on it is the caller's. Memory learns that it is done from whoever takes it, and not
    /// before: whoever gives up must not find there what nobody was told.
    fn take(&self, answered: &Answered<O>, flights: &Few<Flight>) {
        let mut learned: Few<Digest> = Few::Many(Vec::new());
        for ((request, answer), flight) in answered.asked.as_slice().iter().zip(flights.as_slice()) {
            let Some(granted) = answer.as_ref().ok().filter(|answer| O::is_granted(answer)) else { continue };
            if let Some(flights) = O::flights(&self.inner.shared) {
                flights.land_untold(*flight);
            }
            // It has waited here for as long as it liked.
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
        // From now on the driver finds nobody, and has to give back what it would have told.
        self.answered.close();
        let gone = self.answered.try_recv();
        // Before the caller can ask again.
        let shared = O::flights(&self.inner.shared);
        shared.into_iter().for_each(|shared| flights.as_slice().iter().for_each(|flight| shared.leave(*flight)));
        if let Ok(gone) = gone {
            GivingBack::<O>::of(self.inner, gone.asked.into_iter().zip(flights)).start();
        }
    }
}

/// What was granted to callers who are gone. Its ids are in flight until it is given back; and if
/// that cannot be done, the next attempt goes by the same number, and is granted it again.
pub(super) struct GivingBack<O: Operation> {
    inner: Arc<Inner>,
    granted: Vec<(O::Request, O::Answer)>,
    flights: Vec<Flight>,
    /// Those that the store has taken back.
    undone: Vec<bool>,
}

impl<O: Operation> GivingBack<O> {
    /// That of these which was granted.
    pub(super) fn of(
        inner: &Arc<Inner>,
        gone: impl Iterator<Item = ((O::Request, super::driver::Answer<O>), Flight)>,
    ) -> Self {
        let granted = |((request, answer), flight): ((O::Request, super::driver::Answer<O>), Flight)| {
            Some(((request, answer.ok().filter(O::is_granted)?), flight))
        };
        let (granted, flights) = gone.filter_map(granted).unzip();
        GivingBack { inner: Arc::clone(inner), granted, flights, undone: Vec::new() }
    }

    /// More of it.
    pub(super) fn and(mut self, mut other: Self) -> Self {
        self.granted.append(&mut other.granted);
        self.flights.append(&mut other.flights);
        self
    }

    /// Gives it back, as much as may be dropped at a time.
    pub(super) fn start(self) {
        let ids = u32::try_from(self.granted.len()).unwrap_or(u32::MAX);
        if ids > 0
            && let Ok(room) = Arc::clone(&self.inner.dropped).try_acquire_many_owned(ids)
        {
            let inner = Arc::clone(&self.inner);
            inner.runtime.spawn(async move {
                let _room = room;
                self.give_back().await;
            });
        }
    }

    /// In one call. A store that does not answer must not keep those who wait for it.
    async fn give_back(mut self) {
        // What was asked beside a flight is not: somebody else may have been granted the id since.
        let (aside, back): (Vec<_>, Vec<_>) = (0..self.flights.len()).partition(|at| self.flights[*at].is_aside());
        if back.is_empty() {
            return;
        }
        let granted: Vec<_> = back.iter().map(|at| self.granted[*at].clone()).collect();
        let undo = O::undo(&self.inner, &granted);
        let done = tokio::time::timeout(self.inner.calls.timeout, undo).await.unwrap_or_default();
        self.undone = vec![false; aside.len() + back.len()];
        back.into_iter().zip(done).for_each(|(at, done)| self.undone[at] = done);
    }
}

impl<O: Operation> Drop for GivingBack<O> {
    fn drop(&mut self) {
        for (at, (request, _)) in self.granted.iter_mut().enumerate() {
            if self.undone.get(at).is_some_and(|undone| *undone) {
                continue;
            }
            // Those aside are not given back here.
            O::lost(&self.inner, request, !self.flights[at].is_aside());
            if let Some(attempt) = O::attempt(request) {
                self.inner.remember([(self.flights[at].id, *attempt)]);
            }
        }
        // After that, so that whoever asks next goes by the number.
        if let Some(shared) = O::flights(&self.inner.shared) {
            self.flights.iter().for_each(|flight| shared.land_untold(*flight));
        }
    }
}
