//! A deduplication engine, which answers whether an id has been seen before: in the consumer's own
//! process, millions of times a second.
//!
//! Message brokers deliver at least once. hapax tells a consumer which deliveries are duplicates,
//! without a lock, an allocation or a round trip, in memory that grows with the number of ids, up
//! to a budget.
//!
//! ```
//! use hapax::{Attempt, Dedup};
//! use std::time::Duration;
//!
//! # fn handle(_: &str) -> Result<(), std::io::Error> { Ok(()) }
//! let dedup = Dedup::builder().window(Duration::from_secs(600)).capacity(100_000).build()?;
//!
//! for message_id in ["m-1", "m-2", "m-1"] {
//!     match dedup.claim(message_id) {
//!         Attempt::Claimed(claim) => {
//!             handle(message_id)?; // an error drops the claim: the next delivery is handled
//!             claim.complete()?;
//!         }
//!         Attempt::Duplicate(_) => {} // it was handled: acknowledge it
//!         _ => {} // somebody is at work on it: let it come again
//!     }
//! }
//! assert!(dedup.check("m-1").is_duplicate());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`check`](Dedup::check) is one call, and costs less. It marks an id at once: if the work then
//! fails, or its worker dies, the message is lost.
//!
//! New here? The
//! [guide](https://github.com/hapax-rs/hapax/blob/main/docs/guide/1-first-consumer.md) is a course:
//! five minutes to the first deduplicated consumer, then durability, then sharing.
//!
//! # The life of an id
//!
//! ```text
//! id bytes ─► Digest ─► Window ─► History
//!              keyed     exact     Bloom filter
//!              128 bits  recent    long, a guess
//! ```
//!
//! - A *digest* is made of the id with a secret key, so ids are any byte strings of any length,
//!   and nobody can choose two that collide. [`Int`] makes an id of a number, [`Key`] one of
//!   several parts.
//! - The *window* knows the ids that were accepted within the last W. It is a table of buckets, a
//!   cache line each: a check takes one bucket and one compare-and-swap. When it is full, new ids
//!   go into a larger one, and the old one is only looked at until it has expired.
//! - The [`History`], if there is one, remembers much longer, and may be wrong at a rate that you
//!   choose. It is asked about ids that the window does not know. A [`Verdict`] says who decided,
//!   and whether that was a guess.
//!
//! [`Dedup`] is all of that together.
//!
//! # In batches, if possible
//!
//! At ten million live ids the table is in main memory, and a check costs as much as the wait for
//! its cache line. In a batch these waits overlap, which makes a check four to five times as fast.
//!
//! ```
//! # let dedup = hapax::Dedup::builder().build()?;
//! let mut verdicts = Vec::new(); // used again and again
//! dedup.check_batch(["a", "b", "a"], &mut verdicts);
//! assert!(verdicts[0].is_fresh() && verdicts[2].is_duplicate());
//! # Ok::<(), hapax::Error>(())
//! ```
//!
//! [`Dedup::retain_fresh`] does that to a vector of messages, and [`DedupIterator::dedup_by_id`]
//! reads an iterator ahead. Where ids come one by one, [`Dedup::prepare`] on receipt and
//! [`Dedup::check`] after decoding overlap as well.
//!
//! # If a crash must not lose a message
//!
//! A check marks an id as soon as it sees it, before the work. [`Dedup::claim`] keeps others away
//! while the work is under way, and marks the id when it is done: claim, work, complete,
//! acknowledge. With a [journal](Builder::journal), `flush` before the acknowledgement makes that
//! survive crashes and power cuts.
//!
//! ```
//! # let dedup = hapax::Dedup::builder().build()?;
//! let result = dedup.once("m-17", |_claim| "17".parse::<u32>());
//! assert_eq!(result, Ok(hapax::Once::Done(17)));
//! # Ok::<(), hapax::Error>(())
//! ```
//!
//! # Across processes and restarts
//!
//! The crate `hapax-store` has `TieredDedup`, which puts this memory in front of a durable store
//! that processes share: Redis, PostgreSQL, DynamoDB, fjall, SQLite (a crate each), or one of your
//! own. See [docs/scaling-out.md](https://github.com/hapax-rs/hapax/blob/main/docs/scaling-out.md).
//!
//! # Processes
//!
//! An engine belongs to the process that has built it. A server that forks its workers builds one
//! in each worker, after the fork, with a directory of its own if there is a journal. Ids are then
//! unique in each worker; where they must be unique in all workers, the crate `hapax-store` shares
//! them.
//!
//! A child of a fork that uses an engine of its parent all the same has a copy of it: checks,
//! claims and growth go on in the child's memory, and the parent knows nothing of the ids that the
//! child accepts. The journal stays the parent's: in the child every call to it (`flush`, `append`,
//! `positions`, …) returns `JournalError::Forked`, at once, and dropping the engine writes, deletes
//! and unlocks nothing. Threads that the child does not have leave no lock behind: a fork waits
//! until calls have released them, some microseconds. (If 64 MiB wait for the disk, as long as a
//! check would wait.) An id that another thread had claimed stays in progress until its lease ends.
//! An asynchronous engine, whose runtime does not survive a fork, is built after it in any case.
//!
//! This relies on `pthread_atfork`. If a child was made behind the library's back (by a bare system
//! call), the journal still notices, by its process id, in every call but those that check.
//!
//! # Where it goes
//!
//! | you have | take |
//! |---|---|
//! | a consumer of a broker | `Consumer` of `hapax-stream`: claims, handles, completes, acknowledges, for any broker; examples for five |
//! | a log that can be read again, and one process for each part | `LogConsumer` of `hapax-stream`: checks, handles, takes a checkpoint, acknowledges; no store |
//! | a stream of anything | `StreamExt::dedup_by` of `hapax-stream` |
//! | an effect in PostgreSQL | `inbox::once` of `hapax-postgres` in its transaction; messages to be handled later: `Worker`; messages about it: `outbox`, `Relay` |
//! | an HTTP API whose clients try again | `IdempotencyLayer` of `hapax-http` |
//! | calls to such an API | `KeyBuilder` of `hapax-http` |
//!
//! For the pattern that fits, and the gaps that each leaves open:
//! [docs/patterns.md](https://github.com/hapax-rs/hapax/blob/main/docs/patterns.md).
//!
//! # Time
//!
//! By default, the time of arrival counts, read from a cheap monotonic [`Clock`]. With
//! [`Dedup::check_at`] the caller says when each event happened: from then on the window is
//! measured in stream time, the largest time seen so far. With a fixed seed, and as long as no id
//! has to go early, the same input gets the same answers at every run. Tests use a [`ManualClock`].
//!
//! A time that cannot be right is refused ([`Outcome::Refused`]), counted, and changes nothing: by
//! default one too far ahead of the wall clock. [`EventTime`] sets the rule;
//! [`Dedup::reset_stream_time`] is for operators.
//!
//! # What to rely on
//!
//! - Of any number of threads that check one id within the window, exactly one is told that it is
//!   fresh.
//! - An id accepted at t is a duplicate at every t' with t' - t < W, in the engine's time: an event
//!   that comes late counts as of the latest. The window remembers it for at most two ticks longer,
//!   with a tick of at most W / 100.
//! - Exceptions are rare, stated and counted: at the rated capacity two ids in ten million are
//!   forgotten before their time, at the byte budget as many as do not fit
//!   ([`WindowStats::evicted_live`]); two ids collide once in 2 x 10^13 checks.
//! - Nothing is shared between processes, and nothing is remembered across restarts, unless there
//!   is a journal or a store (`hapax-store`).
//! - Once an engine is built, no check fails. Without claims and a journal, no check waits, and
//!   none allocates, except for the buffers that a caller passes in, and for starting the thread
//!   that makes the window grow. In a rush, checks [help it](Builder::growth_thread).

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
#![cfg_attr(any(modelled, alone), allow(unused, reason = "some tests are of parts of the engine"))]

#[cfg(target_family = "wasm")]
compile_error!("hapax needs threads, a monotonic clock and the system's random numbers, which targets of wasm lack");

mod error;
mod verdict;

mod clock;
mod digest;
mod key;
mod random;

mod window;

mod history;

mod claims;

mod adapters;
mod config;
mod dedup;
mod engine;
mod event_time;
mod first_seen;
mod stats;
mod stream_time;

mod journal;

// Models are of the engine alone.
#[doc(hidden)]
pub mod segments;

// Models are of the engine alone.
#[cfg(not(modelled))]
#[doc(hidden)]
pub mod seam;

mod long_memory;

mod id_set;
#[cfg(test)]
mod long;
mod memory;
mod mutation;
mod process;
mod size_hint;
mod sync;

/// Entries for the fuzz targets in `fuzz/`: each gives its input to the decoders of its part.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub fn journal(bytes: &[u8]) -> bool {
        crate::journal::fuzzing::codecs(bytes)
    }

    pub fn hostile(bytes: &[u8]) -> bool {
        crate::journal::fuzzing::hostile(bytes).is_some()
    }

    pub fn segments(bytes: &[u8]) -> bool {
        crate::segments::fuzzing::codecs(bytes)
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod mutants;
#[cfg(all(test, not(any(modelled, alone))))]
mod simulation;

pub use adapters::DedupIterator;
pub use claims::ClaimStats;
pub use clock::{Clock, ManualClock, Timestamp};
pub use config::Builder;
pub use dedup::{
    Appending, Attempt, Claim, ClaimOptions, Dedup, Forgotten, JournalHandle, LostLease, Once, OnceError, Prepared,
    Token,
};
pub use error::SegmentError;
pub use error::{Error, JournalError, Loss};
pub use event_time::EventTime;
pub use first_seen::FirstSeen;
pub use history::{History, Unconfirmed};
pub use journal::{Damage, Defect, JournalOptions, JournalStats, Recovery, Reopened, SyncMode, Torn};
pub use key::{Id, Int, Key};
pub use long_memory::{LongMemory, LongMemoryStats};
pub use stats::Stats;
pub use verdict::{Outcome, Refusal, Tier, Verdict};
pub use window::WindowStats;
