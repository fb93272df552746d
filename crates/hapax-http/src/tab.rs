//! The keys and bytes that scopes have stored, charged against their limits.

use super::ledger::{Charge, Exhausted, Ledger};
use hapax_store::sync::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The tabs of all scopes.
pub(super) struct Tabs {
    ledger: Mutex<Ledger>,
    since: Instant,
}

/// The charge for a key that may be stored: given back, unless it is stored.
pub(super) struct Tab {
    tabs: Arc<Tabs>,
    scope: Arc<str>,
    number: u64,
    is_kept: bool,
}

impl Tabs {
    pub(super) fn new(max: Charge, retention: Duration) -> Arc<Self> {
        Arc::new(Tabs { ledger: Mutex::new(Ledger::new(max, retention)), since: Instant::now() })
    }

    pub(super) fn reserve(self: &Arc<Self>, scope: &Arc<str>) -> Result<Tab, Exhausted> {
        let number = self.lock().reserve(scope, self.since.elapsed())?;
        Ok(Tab { tabs: Arc::clone(self), scope: Arc::clone(scope), number, is_kept: false })
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        // Sums: nothing between two steps of a change panics.
        self.ledger.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Tab {
    /// Keeps the charge, and adds this many bytes: the key is stored, or may be.
    pub(super) fn keep(mut self, bytes: usize) {
        self.is_kept = true;
        self.tabs.lock().keep(&self.scope, self.tabs.since.elapsed(), bytes as u64);
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        if !self.is_kept {
            self.tabs.lock().give_back(&self.scope, self.number);
        }
    }
}
