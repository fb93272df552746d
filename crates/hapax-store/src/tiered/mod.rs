//! The asynchronous engine: memory in front of a durable [`Store`](crate::Store).
//!
//! ```text
//! check ─► window ──hit──► duplicate                                    nothing else is touched
//!            │ miss
//!            ├─ shared ────────────────────► batcher ─► store: mark     whoever is first is fresh
//!            └─ exclusive ─► history
//!                              ├─ new ───► fresh, written behind        no round trip
//!                              └─ maybe ─► batcher ─► store: look up
//! ```
//!
//! The modules below are in that order, from what users call down to what knows nothing of the
//! others. Users call `checking`, `claim`, `run` and `dedup`, which `config` builds. `engine` is
//! the same for every store. `batching` gathers requests and calls the store; concurrent ones for
//! one id are a `single_flight`; `lost_answers` and `overdue` are for stores that answer too late
//! or wrongly, and `breaker` for those that do not answer.

mod config;

mod checking;
mod claim;
mod dedup;
#[cfg(feature = "json")]
mod run;

#[cfg(test)]
mod collisions;

mod background;
mod engine;

mod batching;

mod lost_answers;
mod overdue;
mod single_flight;
mod write_behind;

mod breaker;
mod observe;

mod digest;
mod join_all;
mod one_or_many;
mod random;

pub use breaker::BreakerState;
pub use claim::{
    ClaimError, Done, NotCompleted, TieredAttempt, TieredClaim, TieredClaimOptions, TieredOnce, TieredOnceError,
};
pub use config::{HistoryOptions, TieredBuilder};
pub use dedup::TieredDedup;
pub use engine::{
    Name, NodeStats, OnStoreError, Ownership, Policy, ScopeStats, SideRecord, TieredStats, noted_key, side_record_key,
};
pub use join_all::join_all;
#[cfg(feature = "json")]
pub use run::{IdempotencyError, RunError, RunOptions};
