//! hapax
mod clock;
mod config;
mod dedup;
mod digest;
mod engine;
mod error;
mod history;
mod key;
mod memory;
mod stats;
#[cfg(feature = "bench")]
pub mod strategy;
mod sync;
mod verdict;
mod window;
pub use clock::{Clock, ManualClock, MonotonicClock, Timestamp};
pub use config::{Builder, Unconfirmed};
pub use dedup::{Dedup, Forgotten, Prepared};
pub use digest::{Digest, Digester};
pub use error::Error;
pub use history::{History, HistoryStats};
pub use key::{Int, Key};
pub use stats::Stats;
pub use verdict::{Certainty, Outcome, Tier, Verdict};
pub use window::{Window, WindowStats};
