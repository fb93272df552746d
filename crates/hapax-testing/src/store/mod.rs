//! A suite that tests whether a store keeps its promises, for backends, and a store that fails on
//! purpose.
//!
//! ```
//! use hapax::ManualClock;
//! use hapax_store::InMemoryStore;
//! use hapax_testing::store::{Fixture, verify_store};
//! use std::{sync::Arc, time::Duration};
//!
//! struct InMemory(ManualClock, Arc<InMemoryStore>);
//!
//! impl Fixture for InMemory {
//!     type Store = Arc<InMemoryStore>;
//!
//!     async fn open(&self) -> Self::Store {
//!         Arc::clone(&self.1)
//!     }
//!
//!     async fn advance(&self, by: Duration) {
//!         self.0.advance(by);
//!     }
//! }
//!
//! let clock = ManualClock::new();
//! let store = Arc::new(InMemoryStore::with_clock(clock.clone()));
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//! runtime.block_on(verify_store(&InMemory(clock, store)));
//! # Ok::<(), std::io::Error>(())
//! ```

mod claims;
mod faulty;
mod fixture;
mod marks;
mod records;
mod together;

pub use faulty::{Fault, FaultyStore};
pub use fixture::Fixture;

use fixture::Bench;

/// Runs every case on a store, and prints the name of each: the lines "Claims", "Batches" and
/// "Store and faults" of hapax's behaviour, as far as they are the store's, and each promise of
/// [`Store`](hapax_store::Store). Takes a multi-threaded tokio runtime, or races will not be any.
///
/// # Panics
///
/// If an answer is wrong; the message names it.
pub async fn verify_store<F: Fixture>(fixture: &F) {
    let bench = Bench::new(fixture);
    println!("scopes of this run begin with {:?}", bench.prefix());
    verify(&bench).await;
}

async fn verify(bench: &Bench<'_>) {
    marks::verify(bench).await;
    claims::verify(bench).await;
    records::verify(bench).await;
    together::verify(bench).await;
}

#[cfg(test)]
mod flaw;
#[cfg(test)]
mod flawed;
#[cfg(test)]
mod tests;
