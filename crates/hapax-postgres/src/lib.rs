#![doc = include_str!("../README.md")]
//!
//! # Which one to take
//!
//! | | what is in one transaction | for |
//! |---|---|---|
//! | [`inbox::once`] | mark and effect | a consumer that handles a message while the broker waits |
//! | [`inbox::receive`], [`Worker`] | mark and stored message; then effect and removal | work that is slow, tried again, ordered, in bulk |
//! | [`outbox::enqueue`], [`Relay`] | effect and message | telling others, if and only if the effect was committed |
//!
//! Messages may say what they are: a [kind](NewMessage::kind), a source and a subject, as
//! [`hapax_message`] has them, also as [events of CloudEvents](cloudevents). A [`Router`] gives
//! them to handlers by kind, metrics and spans name them, and [`inbox::handled`] answers who
//! handled the events of a subject, and when. Messages that a worker [keeps](Keep) can be handled
//! once more on purpose ([`inbox::requeue_handled`]); a mark that is [forgotten](inbox::forget)
//! lets its message come in again.
//!
//! # Guarantees
//!
//! - The effect of a message on this database is there once, whatever crashes: consumer, relay or
//!   server.
//! - A message that was received is handled or becomes a dead letter; one that was enqueued is
//!   published or becomes a dead letter. Nothing is removed otherwise. What a server loses of its
//!   commits (in a failover to an asynchronous standby, or when a backup is put back) is lost here,
//!   too: a message with its effect. A message that is there afterwards keeps these promises,
//!   whatever relays and workers lived through the loss; it may be published once more.
//! - Messages of one key (of a consumer, or of a topic) are handled and published in the order in
//!   which the transactions that stored them were committed, one after the other. A message that
//!   fails holds up those of its key, and no others.
//! - A message that was handled is listed if its worker keeps a record of it, or if it was
//!   [marked](inbox::mark) with something to write down: in the transaction of its effect.
//! - A message is published *at least* once: a relay that dies between publishing and removing
//!   leaves it to be published again, with the same id. Its recipient dedupes by that id, for
//!   example by [`inbox::receive`].
//!
//! # What it needs
//!
//! In a database that is not in UTF-8, a text that it cannot spell is refused, and an error's text
//! is kept escaped. [`Tables::migrate`] and [`Retention::expire`] make and empty tables: their role
//! owns them and has `CREATE` on the schema. All other roles need `SELECT`, `INSERT`, `UPDATE` and
//! `DELETE` on them, `USAGE` on the sequences, and `EXECUTE` on the functions, which everybody has
//! unless it was revoked. A pooler of transactions may be in between (see [`Database`]).
//!
//! Ideas: the transactional outbox (Richardson, *Microservices Patterns*, 2018); idempotent
//! receivers (Hohpe and Woolf, *Enterprise Integration Patterns*, 2003); queues by `SKIP LOCKED`
//! (PostgreSQL 9.5); fencing tokens (Burrows, OSDI 2006).

#![cfg_attr(docsrs, feature(doc_cfg))]

mod claims;
pub mod cloudevents;
#[cfg(feature = "serde")]
mod config;
mod database;
mod errors;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
pub mod inbox;
mod mark_result;
mod message;
pub mod outbox;
mod polling;
mod relay;
mod router;
mod schema;
pub mod sql;
mod store;
mod telemetry;
mod transaction;
mod worker;

#[cfg(feature = "sqlx")]
pub use sqlx;
pub use {deadpool_postgres, tokio_postgres};

pub use claims::dead_letters::{DeadLetter, Letters};
pub use claims::retry::Retry;
pub use database::Database;
pub use hapax_message::routes::{OnUnknown, RouterStats};
pub use hapax_message::{Answers, BoxError, GiveUp, Later, Message, OnMismatch, Publisher};
pub use mark_result::Seen;
pub use message::{DESCRIPTION_BYTES_MAX, HEADER_BYTES_MAX, ID_BYTES_MAX, NewMessage, PAYLOAD_BYTES_MAX};
pub use relay::Relay;
#[cfg(feature = "json")]
pub use router::JsonHandler;
pub use router::Router;
#[cfg(all(feature = "json", feature = "sqlx"))]
pub use router::SqlxJsonHandler;
#[cfg(feature = "sqlx")]
pub use router::SqlxRouter;
pub use schema::retention::{Cleanup, Retention};
pub use schema::tables::Tables;
pub use store::{Layout, PostgresOptions, PostgresStore};
pub use telemetry::backlog::Backlog;
pub use telemetry::meters::QueueStats;
pub use transaction::{Client, Transaction};
pub use worker::Worker;
pub use worker::handler::{BatchHandler, Handler};
#[cfg(feature = "sqlx")]
pub use worker::handler::{SqlxBatchHandler, SqlxHandler};
pub use worker::kept_records::Keep;

use crate::store::BACKEND;
