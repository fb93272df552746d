//! Consumers of brokers, and streams without their duplicates.
//!
//! [`Consumer`] does the work of every consumer of an at-least-once broker, for any broker that is
//! a [`Source`]: claim, handle, complete, acknowledge.
//!
//! ```text
//! receive ─► claim ─┬─ claimed ─────► handle ─┬─ done ──► complete ─► flush ─► acknowledge
//!                   │                         ├─ failed ─► retry, later        ▲
//!                   │                         └─ failed N times ─► dead letter ┤ (completed, too)
//!                   ├─ duplicate ──────────────────────────────────────────────┘
//!                   └─ in progress elsewhere ─► retry, when the lease has passed
//! ```
//!
//! [`StreamExt`] does less, for any stream: it [leaves out](StreamExt::dedup_by) duplicates, or
//! [claims](StreamExt::claim_by) each item.

mod attempts;
mod batched;
mod begin;
mod calls;
mod completing;
mod consumer;
mod delivery;
mod drains;
mod ext;
mod extending;
mod handle;
pub mod ids;
mod messages;
#[cfg(feature = "metrics")]
mod meters;
#[cfg(not(feature = "metrics"))]
#[path = "meters_absent.rs"]
mod meters;
mod options;
mod order;
mod outcomes;
mod receive;
mod run;
mod source;
mod stats;
mod tally;

pub use consumer::{Consumer, ConsumerError};
pub use delivery::Delivery;
pub use ext::{ClaimBy, DedupBy, StreamExt, Undecided, Why};
pub use options::{ConsumerBuilder, OnMissing};
pub use source::{Acks, Partition, Source};
pub use stats::ConsumerStats;
