//! The asynchronous engine: memory in front of a durable [`Store`](crate::Store).
//!
//! ```text
//! check ─► window ──hit──► duplicate                                  nothing else is touched
//!            │ miss
//!            ├─ shared ─────────────────► lane ─► store: mark         whoever is first there is fresh
//!            └─ exclusive ─► history
//!                              ├─ new ──► fresh, written behind       no round trip
//!                              └─ maybe ─► lane ─► store: look up
//! ```
//!
//! Files in that order: `dedup`, `checking` and `claiming` are called by users; `engine`,
//! `attempts`, `holder` and `completing` are the same for every store; `memory` has the tiers in
//! memory; `ask`, `driver` and `lane` gather requests; `nodes` has the parts of a store that answer
//! independently; `doubt` and `undoing` handle lost answers; `operation` and `holding` define the
//! requests; `inner` makes the calls (time-outs, retries, `breaker`); `behind` writes later; `note`
//! keeps bytes beside an id.

mod config;
mod options;
mod policy;

mod checking;
mod claim;
mod claiming;
mod dedup;

mod attempts;
mod completing;
mod engine;
mod holder;

#[cfg(test)]
mod collisions;

mod ask;
mod call;
mod driver;
mod few;
mod flights;
mod holding;
mod lane;
mod led;
mod nodes;
mod operation;
mod unresolved;

mod doubt;
mod overdue;
mod undoing;

mod behind;

mod note;

mod breaker;
mod inner;

mod background;
mod owner;

#[cfg(feature = "metrics")]
mod meters;
#[cfg(not(feature = "metrics"))]
#[path = "meters_absent.rs"]
mod meters;
mod observe;
mod stats;

pub use breaker::BreakerState;
pub use claim::{ClaimError, Done, TieredAttempt, TieredClaim, TieredClaimOptions};
pub use claiming::{TieredOnce, TieredOnceError};
pub use completing::NotCompleted;
pub use config::TieredBuilder;
pub use dedup::TieredDedup;
pub use engine::Name;
pub use inner::Ownership;
pub use note::Note;
pub use policy::{OnStoreError, Policy};
pub use stats::{NodeStats, ScopeStats, TieredStats};
