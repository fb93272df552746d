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
//! [`LogConsumer`] does it for logs that can be read again, with one sync for each batch and no
//! store: check, handle, checkpoint, acknowledge.
//!
//! [`StreamExt`] does less, for any stream: it [leaves out](StreamExt::dedup_by) duplicates, or
//! [claims](StreamExt::claim_by) each item.

mod attempt_count;
mod attempts;
mod batched;
mod begin;
mod builder;
mod calls;
mod completing;
mod consumer;
mod delivery;
mod drains;
mod error;
mod event;
mod ext;
mod handle;
mod heartbeat;
mod log_calls;
mod log_consumer;
mod log_run;
mod log_shared;
mod marks;
mod memory;
mod messages;
#[cfg(feature = "metrics")]
mod meters;
#[cfg(not(feature = "metrics"))]
#[path = "no_metrics.rs"]
mod meters;
mod options;
mod order;
mod outcomes;
mod receive;
mod run;
mod shared;
mod source;
mod stats;

pub use builder::ConsumerBuilder;
pub use consumer::Consumer;
pub use delivery::Delivery;
pub use error::ConsumerError;
pub use ext::{ClaimBy, DedupBy, StreamExt, Undecided, Why};
pub use log_consumer::{LogConsumer, LogConsumerBuilder};
pub use memory::Memory;
pub use options::OnMissing;
pub use source::{Acks, Partition, Source};
pub use stats::ConsumerStats;
