//! Long memory on a disk: sorted files that never change, *segments*, in a directory.
//!
//! In the order of the data: in `write`, `sort` puts the events of a span in order, and `writer`
//! makes a file of them. `encoding` has its bytes: `page`s, and the rest of the file (`format`,
//! `filter`, `index`); `key` is what is kept of a digest and of a time. `live` has what counts:
//! `set`, and what changes that: `seal_and_merge`, in steps (`merge`). In `read`, `look` answers
//! questions, by each segment's filter and one page of those that may have the id (`segment`),
//! which are read together (`page_reads`). `plan` decides what is merged and what has expired, and
//! says what all of it takes. `source` is where bytes of files come from that are not here;
//! `download` brings them, each as an `incoming_file`.
//!
//! Nothing here knows the engine or the journal's files: it shares the journal's disk, so that
//! tests can put another one there.
//!
//! The design is in `docs/design/long-memory.md`. The public interface is in no promise: the module
//! `long_memory` is built on it.

mod encoding;
mod live;
mod options;
mod plan;
mod read;
mod write;

#[cfg(any(fuzzing, all(test, not(any(modelled, alone)))))]
pub(crate) mod fuzzing;
#[cfg(all(test, not(any(modelled, alone))))]
pub(crate) mod tests;

pub use encoding::filter::BITS_PER_ID;
pub use live::seal_and_merge::Merge;
pub use live::set::Segments;
pub use live::stats::SegmentStats;
pub use options::SegmentOptions;
pub use plan::{LIVE_MAX, Needs, SPANS_PER_RETENTION_MAX};
pub use read::look::Answer;
pub use read::page_reads::READ_THREADS_MAX;
pub use read::source::SegmentSource;
pub use write::sort::{Event, EventKind, Span};

pub use crate::digest::{DigestKey, DigestKind, WantedKey};
