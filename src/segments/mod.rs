//! Long memory on a disk: sorted files that never change, *segments*, in a directory.
//!
//! In the order of the data: `sort` puts the events of a span in order, `writer` makes a file
//! of them, of `page`s; `format` has the rest of the file, and the manifest that lists those
//! which count; `key` is what is kept of a digest and of a time. `set` has what is live, and
//! `change` what changes that: sealing, and merging, in steps (`merge`). `look` answers
//! questions, by each segment's `filter` and one page of those that may have the id (`segment`,
//! `index`), which are read together (`reads`). `plan` decides what is merged and what has
//! expired, and says what all of it takes. `source` is where bytes of files come from that are not
//! here; `bring` brings them, each as a file that is `coming`. `name` has the names of files.
//!
//! Nothing here knows the engine or the journal's files: it shares the journal's disk, so that
//! tests can put another one there.
//!
//! The design is in `docs/design/long-memory.md`. The public interface is in no promise: the module
//! `long_memory` is built on it.

mod bring;
mod change;
mod coming;
mod durable;
mod filter;
mod format;
mod index;
mod key;
mod look;
mod manifest;
mod merge;
mod name;
mod options;
mod page;
mod plan;
mod reads;
mod segment;
mod set;
mod sort;
mod source;
mod stats;
mod writer;

#[cfg(test)]
mod damaged;
#[cfg(test)]
pub(crate) mod elsewhere;
#[cfg(test)]
mod faults;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod model;
#[cfg(all(test, not(modelled)))]
mod real;

pub use change::Merge;
pub use filter::BITS_PER_ID;
pub use look::Answer;
pub use options::SegmentOptions;
pub use plan::{LIVE_MAX, Needs, SPANS_PER_RETENTION_MAX};
pub use reads::READ_THREADS_MAX;
pub use set::Segments;
pub use sort::{Event, EventKind, Span};
pub use source::SegmentSource;
pub use stats::SegmentStats;

pub use crate::digest::{DigestKey, DigestKind, WantedKey};
