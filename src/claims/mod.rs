//! Claims: ids whose work is under way. They are held beside the window, which learns of an id when
//! its work is done.
//!
//! [`map`] is what is known of the ids in flight and what a call does to that, [`kept`] what late
//! checks are to be told, [`fingerprints`] the fingerprints of completed claims: no atomics, no
//! time of their own. [`shards`] is the protocol: a map behind a lock in each shard, and how it and
//! checks, which take no lock, respect each other; [`effects`] is what follows for the tiers that
//! remember ids ([`marks`]), [`restore`] what comes back from them. [`engine`] brings in window and
//! history, [`batch`] locks a shard once for many ids. [`claim`] is what callers hold, [`dedup`]
//! what they call.

mod attempt;
mod batch;
mod claim;
mod dedup;
mod effects;
mod engine;
mod fingerprints;
mod kept;
mod map;
mod marks;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod restore;
mod shards;
mod stats;

pub use attempt::{Attempt, ClaimOptions};
pub use claim::{Claim, LostLease, Once, OnceError, Token};
pub(crate) use engine::Respected;
pub(crate) use fingerprints::Fingerprint;
pub(crate) use shards::Claims;
#[cfg(feature = "plan")]
pub(crate) use shards::planned;
// Shared: an asynchronous engine of one process decides like a synchronous one.
pub(crate) use engine::At;
pub use engine::Tried;
pub(crate) use map::{Begun, Ended, Request};
pub use stats::ClaimStats;
