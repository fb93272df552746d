#![doc = include_str!("../README.md")]
//!
//! Most stores show their records to people, too: [`Inspect`].
//!
//! Where a setting says which one it is, [`DynStore`] is a store of any backend.
//!
//! A function that is to run once, and its result, which callers get again when they call again:
//! `TieredDedup::run`, with the feature `json`, and the attribute `once` of `hapax-macros`.
//!
//! To write another store, implement [`Store`], which says what is promised, with the parts in
//! [`backend`], and run the suite in `hapax_testing::store` on it.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod backend;
mod error;
mod key;
mod request;

mod contract;
mod doubt;
mod dyn_store;
mod expiring;
mod in_memory;
mod inspect;

mod budgeted;

#[cfg(feature = "metrics")]
mod engine_metrics;

mod tiered;

#[doc(hidden)]
pub mod attempt_count;
#[doc(hidden)]
pub use hapax::seam::back_off;
#[doc(hidden)]
pub mod detached;
#[cfg(feature = "json")]
#[doc(hidden)]
pub mod of_macros;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod unwind;

#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;

pub use backend::committer::Durability;
pub use budgeted::BudgetStore;
pub use contract::{MAX_NODES, Store};
pub use doubt::{Before, HeldBy};
pub use dyn_store::DynStore;
#[cfg(feature = "metrics")]
pub use engine_metrics::EngineMetrics;
#[cfg(feature = "metrics")]
#[doc(hidden)]
pub use engine_metrics::{SAMPLED_EVERY, sampled};
pub use error::{ErrorKind, StoreError};
pub use in_memory::InMemoryStore;
pub use inspect::{Inspect, Inspected, Listed, Listing, RecordState};
pub use key::{RecordKey, Scope, StoredId};
pub use request::*;
pub use tiered::{
    BreakerState, ClaimError, Done, HistoryOptions, NodeStats, NotCompleted, OnStoreError, Ownership, Policy,
    ScopeStats, TieredAttempt, TieredBuilder, TieredClaim, TieredClaimOptions, TieredDedup, TieredOnce,
    TieredOnceError, TieredStats,
};
#[cfg(feature = "json")]
pub use tiered::{IdempotencyError, RunError, RunOptions};
#[doc(hidden)]
pub use tiered::{Name, SideRecord, join_all, noted_key, side_record_key};

/// The examples of `hapax-macros`, which must not depend on this crate.
#[cfg(all(doctest, feature = "json"))]
mod macros {
    #[doc = include_str!("../../hapax-macros/README.md")]
    struct Example;
    #[doc = include_str!("../../hapax-macros/src/refused.md")]
    struct Refused;
}
