//! Claims: ids whose work is under way. They are held beside the window, which learns of an id when
//! its work is done.
//!
//! [`map`] is what is known of the ids in flight and what a call does to that, [`tombstones`] what
//! late checks are to be told, [`fingerprints`] the fingerprints of completed claims, all by
//! [`name`]: no atomics, no time of their own. [`shards`] is the protocol: a map behind a lock in
//! each [`shard`], and how it and checks, which take no lock, respect each other; [`effects`] is
//! what follows for the tiers that remember ids ([`done`]), [`restore`] what comes back from them.
//! [`filter`] is what checks see of that map. [`batch`] locks a shard once for many ids. Nothing
//! here knows the engine, which brings in window and history (`engine/claims.rs`).

mod batch;
mod done;
mod effects;
mod filter;
mod fingerprints;
mod map;
#[cfg(all(test, loom))]
mod models;
mod name;
mod restore;
mod shard;
mod shards;
mod stats;
mod tombstones;

pub(crate) use batch::{Locked, sort_by_shard};
pub(crate) use done::DoneIds;
pub(crate) use effects::Insertion;
pub(crate) use fingerprints::Fingerprint;
pub(crate) use map::{Begun, Ended, Request};
pub(crate) use shards::Claims;
pub use shards::planned;
pub use stats::ClaimStats;
