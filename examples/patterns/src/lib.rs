//! Patterns against duplicates, each a file to copy from: [docs/patterns.md] says when to use
//! which. Their tests deliver every message several times, also at once, and die at each step; they
//! find out the naive version of each.
//!
//! Functions that take a [`GenericClient`](tokio_postgres::GenericClient) work alone, or in the
//! caller's transaction. Those that take a [`Client`](tokio_postgres::Client) must not be in one:
//! they commit before they go on.
//!
//! [docs/patterns.md]: https://github.com/hapax-rs/hapax/blob/main/docs/patterns.md

#![forbid(unsafe_code)]

pub mod absolute;
pub mod bulk_rows;
pub mod hot_key;
pub mod idempotent_producer;
pub mod last_event;
pub mod named_consumers;
pub mod once_a_day;
pub mod reservation;
pub mod saga;
pub mod sent_mails;
pub mod state_guard;
pub mod unique_row;
pub mod upsert;
