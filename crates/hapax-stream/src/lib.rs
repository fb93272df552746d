//! Consumers of brokers, and streams without their duplicates.
//!
//! [`Consumer`] does the work of every consumer of an at-least-once broker, for any broker that is
//! a [`Source`]: claim, handle, complete, acknowledge.
//!
//! ```text
//! receive ─► claim ─┬─ claimed ─────► handle ─┬─ done ──► complete ─► flush ─► acknowledge
//!                   │                         ├─ failed ─► retry, later        ▲
//!                   │                         └─ failed N times,               │
//!                   │                            or given up ─► dead letter ───┤ (not completed)
//!                   ├─ duplicate ──────────────────────────────────────────────┘
//!                   └─ in progress elsewhere ─► retry, when the lease has passed
//! ```
//!
//! [`LogConsumer`] does it for logs that can be read again, with one sync for each batch and no
//! store: check, handle, checkpoint, acknowledge.
//!
//! A [`Router`] has a handler for each kind of message. An error with [`GiveUp`] says that no other
//! attempt can help, one with [`Later`] that it was none. A [`Consumer`] handles messages of a key
//! [in order](ConsumerBuilder::in_order_by) if it is told to. Where their ids come from is in
//! [`hapax_message`].
//!
//! [`StreamExt`] does less, for any stream: it [leaves out](StreamExt::dedup_by) duplicates, or
//! [claims](StreamExt::claim_by) each item.

mod attempts;
mod batched;
mod begin;
mod builder;
mod calls;
mod claiming;
mod completing;
mod consumer;
mod counting;
mod delivery;
mod drains;
mod error;
mod event;
mod ext;
mod failure;
mod handle;
mod handler;
mod heartbeat;
mod kinds;
mod lanes;
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
mod outage;
mod outcomes;
mod receive;
mod retry_for;
mod router;
mod run;
mod shared;
mod source;
mod standing;
mod stats;

pub use builder::ConsumerBuilder;
pub use consumer::Consumer;
pub use delivery::Delivery;
pub use error::ConsumerError;
pub use ext::{ClaimBy, DedupBy, StreamExt, Undecided, Why};
pub use failure::{Later, OnError};
pub use hapax_message::GiveUp;
pub use kinds::Kinds;
pub use log_consumer::{Log, LogConsumer};
pub use memory::Memory;
pub use options::OnMissing;
pub use retry_for::retry_for;
pub use router::{OnUnknown, Routed, Router, RouterBuilder, RouterError, RouterStats};
pub use source::{Acks, Partition, Source};
pub use standing::Health;
pub use stats::ConsumerStats;
