//! The parts that are the same for every store: an engine's state, and the operations on it as a
//! whole.

#[expect(clippy::module_inception, reason = "the folder is about it")]
mod engine;
mod note;
mod owner_lease;
mod policy;
mod standing;
mod stats;

pub(super) use engine::Engine;
pub use engine::Name;
pub use note::{Note, key_of as note_key};
pub(super) use owner_lease::{LEASE, OwnerLease, only, owner_key};
pub(crate) use policy::EVERYWHERE;
pub(super) use policy::PolicyState;
pub use policy::{OnStoreError, Policy};
pub use standing::Ownership;
pub(super) use standing::Standing;
pub use stats::{NodeStats, ScopeStats, TieredStats};
