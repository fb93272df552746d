//! Tier 2: ids that were seen within the horizon, as a guess.
//!
//! [`block`] decides which bits stand for an id, [`looks`] whether they are there, [`sizing`] how
//! many there must be, [`rotating`] how they are forgotten, [`turn`] the word that decides when;
//! [`options`] is what users ask for.

#[cfg(all(target_arch = "x86_64", not(modelled)))]
mod avx2;
mod block;
mod looks;
#[cfg(all(test, loom))]
mod models;
mod options;
mod rotating;
mod sizing;
#[cfg(all(test, not(modelled)))]
mod tests;
mod turn;

pub(crate) use looks::{Look, LookForFew};
#[cfg(any(fuzzing, test))]
pub(crate) use options::history;
pub use options::{History, Unconfirmed};
pub use rotating::{HistoryStats, HistoryTier};
pub use sizing::{Density, Size, rate_in};
