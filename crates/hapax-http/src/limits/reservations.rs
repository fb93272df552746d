//! The bytes that scopes have stored, charged against their limits.

use super::ledger::{Exhausted, Ledger};
use hapax_store::sync::{Mutex, MutexGuard, lock};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The reservations of all scopes.
pub(crate) struct Reservations {
    ledger: Mutex<Ledger>,
    since: Instant,
}

/// The charge for a key that may be stored: given back, unless it is stored.
pub(crate) struct Reservation {
    reservations: Arc<Reservations>,
    scope: Arc<str>,
    number: u64,
    is_kept: bool,
}

impl Reservations {
    pub(crate) fn new(max: u64, retention: Duration) -> Arc<Self> {
        Arc::new(Reservations { ledger: Mutex::new(Ledger::new(max, retention)), since: Instant::now() })
    }

    pub(crate) fn reserve(self: &Arc<Self>, scope: &Arc<str>) -> Result<Reservation, Exhausted> {
        let number = self.lock().reserve(scope, self.since.elapsed())?;
        Ok(Reservation { reservations: Arc::clone(self), scope: Arc::clone(scope), number, is_kept: false })
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        // Sums: nothing between two steps of a change panics.
        lock(&self.ledger)
    }
}

impl Reservation {
    /// Keeps the charge, and adds this many bytes: the key is stored, or may be.
    pub(crate) fn keep(mut self, bytes: usize) {
        self.is_kept = true;
        self.reservations.lock().keep(&self.scope, self.reservations.since.elapsed(), bytes as u64);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_kept {
            self.reservations.lock().give_back(&self.scope, self.number);
        }
    }
}
