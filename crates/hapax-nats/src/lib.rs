#![doc = include_str!("../README.md")]
//!
//! # The consumer's configuration
//!
//! [`JetStream::new`] asks the server for it, and refuses one that would lose messages:
//!
//! | option of the consumer | must be | since otherwise |
//! |---|---|---|
//! | `durable_name` | given | what was not acknowledged is forgotten with the process |
//! | `ack_policy` | `Explicit` | messages are acknowledged that nobody has handled |
//! | `max_deliver` | unlimited (-1) | the server gives a message up in silence after this many deliveries, and waiting costs deliveries. The `Consumer` counts attempts, and puts aside what fails |
//! | `ack_wait`, and each of `backoff` | at least 1 s | a heartbeat that is a little late lets others have the message |
//! | `max_ack_pending` | unlimited, or at least [`ack_pending_min`](JetStreamOptions::ack_pending_min) | the server stops delivering while handlers are free |
//! | `headers_only` | off | there is nothing to handle, and a dead letter would be empty |
//!
//! # Guarantees
//!
//! - A message is acknowledged when it is done, and the server has confirmed that: it answers each
//!   acknowledgement. One that is lost all the same, as by a server that loses its disk, delivers a
//!   message again, which is a duplicate.
//! - As long as a message waits here or is handled, the server hears of it three times within its
//!   shortest wait. The client holds no messages that it does not report.
//! - A message that fails too often is stored under the subject for dead letters, with its headers
//!   and the reason (`Dead-Letter-Reason`), before its delivery is terminated. It is stored once,
//!   unless the stream's duplicate window is shorter than the time between two tries. Headers that
//!   begin with `Nats-` are commands to the server; the copy has them as `Dead-Letter-Original-…`.
//! - The number of deliveries of the message is a hint, as [`Source::deliveries`] says: attempts
//!   are counted by the store.
//!
//! [`Source::deliveries`]: hapax_stream::Source::deliveries
//!
//! # Dead letters
//!
//! To have one handled again, publish its payload to the subject in its `Dead-Letter-Subject`, with
//! its headers, `Dead-Letter-Original-Msg-Id` as `Nats-Msg-Id` again. A stream that has stored this
//! `Nats-Msg-Id` within its duplicate window, two minutes by default, drops the message and answers
//! with `duplicate`: publish it once more when the window has passed.
//!
//! # Order
//!
//! Messages are received in the order of the stream, except those that are delivered again, and
//! handled side by side. [`in_order_by`](hapax_stream::ConsumerBuilder::in_order_by) keeps the
//! order of a key within a process; with `max_ack_pending` 1 there is one message at a time in all
//! processes.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod dead_letter;
mod error;
mod message;
mod options;
mod publisher;
mod source;

pub use async_nats;
pub use error::NatsError;
pub use message::Message;
pub use options::JetStreamOptions;
pub use publisher::JetStreamPublisher;
pub use source::JetStream;
