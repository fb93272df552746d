//! A suite that tests whether a store keeps its promises, for backends, and a store that fails on
//! purpose.
//!
//! ```
//! use hapax::ManualClock;
//! use hapax_store::InMemoryStore;
//! use hapax_testing::store::{Fixture, StoreTime, verify_store};
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
//!
//!     fn time(&self) -> StoreTime {
//!         StoreTime::EXACT // by the clock alone: leases and retentions are tested to the nanosecond
//!     }
//! }
//!
//! let clock = ManualClock::new();
//! let store = Arc::new(InMemoryStore::with_clock(clock.clone()));
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//! match runtime.block_on(verify_store(&InMemory(clock, store))) {
//!     Ok(report) => println!("{report}"),
//!     Err(failure) => panic!("{failure}"), // the case, what was asked, what was expected and got
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod claims;
mod doubt;
mod faulty;
mod fixture;
mod marks;
mod outcome;
mod records;
mod time;
mod times;
mod together;
mod tokens;

pub use faulty::{Fault, FaultyStore};
pub use fixture::Fixture;
pub use outcome::{Failure, Report};
pub use time::StoreTime;

use fixture::Bench;
use outcome::{Checked, Wrong};
use std::time::Duration;

/// The longest time that the suite waits for a store that does not answer.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs every case on a store: the lines "Claims", "Batches" and "Store and faults" of hapax's
/// behaviour, as far as they are the store's, and each promise of [`Store`](hapax_store::Store).
/// Takes a multi-threaded tokio runtime with its time, or races will not be any.
///
/// A case about the end of a lease, a retention or doubt is run again, ten times in all, if an
/// answer is wrong and it took longer than the slack of a [time that passes](StoreTime::Passes): of
/// a machine that is so busy, that answer says nothing of the store.
///
/// # Errors
///
/// The first answer that is wrong, an error that the store returned, or none for ten minutes.
pub async fn verify_store<F: Fixture>(fixture: &F) -> Result<Report, Failure> {
    let bench = Bench::new(fixture);
    let checked = match tokio::time::timeout(LIMIT, verify(&bench)).await {
        Ok(checked) => checked,
        Err(_) => Err(Wrong::new("a request", format!("an answer within {LIMIT:?}"), format_args!("none"))),
    };
    bench.outcome(checked)
}

async fn verify(bench: &Bench<'_>) -> Checked {
    marks::verify(bench).await?;
    bench.in_time(async |bench| times::verify(bench).await).await?;
    tokens::verify(bench).await?;
    claims::verify(bench).await?;
    bench.in_time(async |bench| doubt::verify(bench).await).await?;
    records::verify(bench).await?;
    together::verify(bench).await
}

#[cfg(test)]
mod flawed;
#[cfg(test)]
mod tests;
