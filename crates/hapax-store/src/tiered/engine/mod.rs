//! The parts that are the same for every store: an engine's state, and the operations on it as a
//! whole.

mod bypass;
#[expect(clippy::module_inception, reason = "the folder is about it")]
mod engine;
mod owner_lease;
mod ownership_state;
mod policy;
mod side_record;
mod stats;

pub(super) use engine::Engine;
pub use engine::Name;
pub(super) use owner_lease::{LEASE, OwnerLease, only, owner_key};
pub use ownership_state::Ownership;
pub(super) use ownership_state::OwnershipState;
pub(crate) use policy::EVERYWHERE;
pub(super) use policy::PolicyState;
pub use policy::{OnStoreError, Policy};
pub use side_record::{SideRecord, key_of as side_record_key, noted_key};
pub use stats::{NodeStats, ScopeStats, TieredStats};
