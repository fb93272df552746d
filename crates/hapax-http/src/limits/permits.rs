//! Permits for limited resources: given back when they are dropped, wherever that is.

use super::quota::{Amounts, Full, Limits, Quotas, Resource, Turn};
use bytes::Bytes;
use hapax_store::sync::{Mutex, MutexGuard, lock};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;

/// The permits of one layer.
pub(crate) struct Permits {
    state: Mutex<State>,
    /// Notified when nothing is read or in flight any more.
    idle: Notify,
}

struct State {
    quotas: Quotas,
    /// The number of callers that wait until nothing is in flight: meanwhile nothing is let in.
    closing: usize,
}

/// Permits that are held until they are dropped.
pub(crate) struct Permit {
    permits: Arc<Permits>,
    scope: Option<Arc<str>>,
    resource: Resource,
    amount: usize,
}

impl Permits {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let state = Mutex::new(State { quotas: Quotas::new(limits), closing: 0 });
        Arc::new(Permits { state, idle: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Sums and a table of them: nothing between two steps of a change panics.
        lock(&self.state)
    }

    pub(crate) fn used(&self) -> Amounts {
        self.lock().quotas.used()
    }

    /// Lets a request in, to be read: if there are permits for it, and for the handler that it is
    /// for.
    pub(crate) fn enter(self: &Arc<Self>, scope: Option<&Arc<str>>) -> Result<Permit, Full> {
        let mut state = self.lock();
        if state.closing > 0 {
            return Err(Full::Closing);
        }
        // Neither is taken yet. But a request that could not be handled need not be read; and a
        // request without a body has none that could be refused later, but may have an answer.
        state.quotas.has_room(scope, Resource::InFlight)?;
        state.quotas.has_room(scope, Resource::Bytes)?;
        state.quotas.has_room(scope, Resource::Reading)?;
        state.quotas.take(scope, Resource::Reading, 1);
        Ok(self.permit(scope, Resource::Reading, 1))
    }

    /// Returns a permit for bytes, of which there are none yet.
    pub(crate) fn no_bytes(self: &Arc<Self>, scope: Option<&Arc<str>>) -> Permit {
        self.permit(scope, Resource::Bytes, 0)
    }

    fn permit(self: &Arc<Self>, scope: Option<&Arc<str>>, resource: Resource, amount: usize) -> Permit {
        Permit { permits: Arc::clone(self), scope: scope.cloned(), resource, amount }
    }

    /// Waits until nothing is read or in flight; until then nothing is let in.
    pub(crate) async fn until_idle(&self) {
        /// A guard that lets requests in again, also for a caller that gives up.
        struct Closing<'r>(&'r Permits);
        impl Drop for Closing<'_> {
            fn drop(&mut self) {
                self.0.lock().closing -= 1;
            }
        }
        self.lock().closing += 1;
        let _closing = Closing(self);
        loop {
            let mut told = pin!(self.idle.notified());
            told.as_mut().enable();
            if self.lock().quotas.is_idle() {
                return;
            }
            told.await;
        }
    }
}

impl Permit {
    /// Lets the request go on to its handler. It keeps this permit until it has the next: it is
    /// never without one.
    pub(crate) fn run(self) -> Result<Permit, Full> {
        let scope = self.scope.as_ref();
        let mut state = self.permits.lock();
        state.quotas.has_room(scope, Resource::InFlight)?;
        state.quotas.take(scope, Resource::InFlight, 1);
        drop(state);
        Ok(self.permits.permit(scope, Resource::InFlight, 1))
    }

    /// Returns the turn of its scope.
    pub(crate) fn turn(&self) -> Option<Turn> {
        self.permits.lock().quotas.turn(self.scope.as_ref())
    }

    /// Returns a permit for bytes of the same scope, of which there are none yet.
    pub(crate) fn bytes(&self) -> Permit {
        self.permits.no_bytes(self.scope.as_ref())
    }

    /// Takes more, if anything is left. (So one piece may exceed the limit.)
    pub(crate) fn grow(&mut self, amount: usize) -> Result<(), Full> {
        let mut state = self.permits.lock();
        state.quotas.has_room(self.scope.as_ref(), self.resource)?;
        state.quotas.take(self.scope.as_ref(), self.resource, amount);
        self.amount += amount;
        Ok(())
    }

    /// Takes more in any case: for the answer to a request that has been handled. Others are
    /// refused until it is gone.
    pub(crate) fn grow_anyway(&mut self, amount: usize) {
        self.permits.lock().quotas.take(self.scope.as_ref(), self.resource, amount);
        self.amount += amount;
    }

    /// Returns bytes that keep the permit until the last of them is dropped.
    pub(crate) fn with(self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() { bytes } else { Bytes::from_owner(Held { bytes, _permit: self }) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.permits.lock();
        state.quotas.give_back(self.scope.as_ref(), self.resource, self.amount);
        let is_idle = state.closing > 0 && state.quotas.is_idle();
        drop(state);
        if is_idle {
            self.permits.idle.notify_waiters();
        }
    }
}

struct Held {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(max: usize) -> Arc<Permits> {
        let amounts = Amounts { reading: max, in_flight: max, bytes: 10 * max };
        let least_per_scope = Amounts { reading: 1, in_flight: 1, bytes: 1 };
        Permits::new(Limits { max: amounts, least_per_scope })
    }

    #[test]
    fn a_permit_to_run_is_taken_before_the_one_to_read_is_given_back() {
        let permits = permits(1);
        let scope: Arc<str> = "a".into();
        let reading = permits.enter(Some(&scope)).unwrap();
        assert!(permits.enter(Some(&scope)).is_err());
        let running = reading.run().unwrap();
        assert_eq!(permits.used(), Amounts { reading: 0, in_flight: 1, bytes: 0 });
        // A request that could not be run is not read.
        assert_eq!(permits.enter(Some(&scope)).err(), Some(Full::All(Resource::InFlight, 1)));
        drop(running);
        assert!(permits.enter(Some(&scope)).is_ok());
        assert_eq!(permits.used(), Amounts::default());
    }

    #[test]
    fn bytes_are_held_until_the_last_of_them_is_dropped() {
        let permits = permits(1);
        let mut permit = permits.no_bytes(None);
        permit.grow(8).unwrap();
        permit.grow(8).unwrap();
        assert_eq!(permit.grow(1), Err(Full::All(Resource::Bytes, 10)));
        permit.grow_anyway(1);
        let mut bytes = permit.with(Bytes::from(vec![7; 17]));
        let some = bytes.split_to(1);
        drop(bytes);
        assert_eq!((permits.used().bytes, &some[..]), (17, &[7][..]));
        drop(some);
        assert_eq!(permits.used().bytes, 0);
        assert!(permits.no_bytes(None).with(Bytes::new()).is_empty());
    }

    #[test]
    fn while_somebody_waits_for_the_end_nothing_comes_in() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let permits = permits(2);
            permits.until_idle().await;
            let reading = permits.enter(None).unwrap();
            let ends = Arc::clone(&permits);
            let ends = tokio::spawn(async move { ends.until_idle().await });
            tokio::task::yield_now().await;
            assert_eq!(permits.enter(None).err(), Some(Full::Closing));
            // A request that is already in goes on to its end.
            let running = reading.run().unwrap();
            tokio::task::yield_now().await;
            assert!(!ends.is_finished());
            drop(running);
            ends.await.unwrap();
            // A caller that gives up waiting leaves it open.
            let reading = permits.enter(None).unwrap();
            let gives_up = Arc::clone(&permits);
            let gives_up = tokio::spawn(async move { gives_up.until_idle().await });
            tokio::task::yield_now().await;
            gives_up.abort();
            assert!(gives_up.await.is_err());
            drop(reading);
            assert!(permits.enter(None).is_ok());
        });
    }
}
