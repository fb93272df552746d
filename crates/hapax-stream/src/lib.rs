#![doc = include_str!("../README.md")]
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
//! [in order](ConsumerBuilder::in_order_by) if it is told to, and several at a time, for sinks that
//! take many rows in one statement: [`run_batches`](Consumer::run_batches). Where their ids come
//! from is in [`hapax_message`].
//!
//! [`StreamExt`] does less, for any stream: it [leaves out](StreamExt::dedup_by) duplicates, or
//! [claims](StreamExt::claim_by) each item.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod adapters;
mod builder;
mod consuming;
mod error;
mod handling;
mod log;
mod options;
mod order;
mod retry_for;
mod shared;
mod source;
mod telemetry;

pub use adapters::ext::{ClaimBy, DedupBy, StreamExt, Undecided, Why};
pub use builder::ConsumerBuilder;
pub use consuming::consumer::Consumer;
pub use error::ConsumerError;
pub use handling::delivery::Delivery;
pub use handling::failure::OnError;
pub use handling::router::{Routed, Router};
pub use handling::takeover::{Effect, OnTakeover, Probe};
pub use hapax_message::routes::{OnUnknown, RouterError, RouterStats};
pub use hapax_message::{Answers, GiveUp, Later, OnMismatch};
pub use log::consumer::{Log, LogConsumer};
pub use log::memory::Memory;
pub use options::OnMissing;
pub use retry_for::retry_for;
pub use source::{Acks, Partition, Source};
pub use telemetry::event::ConsumerStats;
pub use telemetry::health::Health;
