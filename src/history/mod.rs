//! Tier 2: ids that were seen within the horizon, as a guess.
//!
//! [`block`] decides which bits stand for an id, [`sizing`] how many there must be, [`rotating`]
//! how they are forgotten, [`turn`] the word that decides when; [`options`] is what users ask for.

mod block;
#[cfg(all(test, loom))]
mod models;
mod options;
mod rotating;
mod sizing;
#[cfg(all(test, not(modelled)))]
mod tests;
mod turn;

#[cfg(any(fuzzing, test))]
pub(crate) use options::history;
pub use options::{History, Unconfirmed};
pub(crate) use rotating::Look;
pub use rotating::{HistoryStats, HistoryTier};
pub use sizing::{Density, Size, rate_in};
