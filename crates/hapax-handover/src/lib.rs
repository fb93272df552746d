//! The memory of a deduplicating consumer follows its partition.
//!
//! An owner of a partition ships its engine's journal to an object store: S3, GCS, Azure, whatever
//! [`object_store`] has with conditional puts. When the partition moves, the next owner acquires
//! it: the last one is fenced, its files come over, and the engine knows every id that lies before
//! the position to go on from. See [`Handover`].
//!
//! This crate asks for no cloud by itself: depend on `object_store` with the feature of yours
//! (`aws`, `gcp`, `azure`). A local directory (`LocalFileSystem`) has no conditional put over a
//! version, and is refused.
//!
//! With the feature `stream` an [`Owned`] is the memory of a `LogConsumer` of `hapax-stream`, which
//! checks, handles, takes checkpoints, publishes and acknowledges; `examples/brokers` has it for
//! Kafka.
//!
//! What travels is the journal, with its window, and the segments of a long memory
//! ([`Acquired::open_with_long_memory`]): give [`Acquired::open`] no builder that has one of its
//! own.
//!
//! The protocol, and who checks it: `docs/design/streams.md`.

mod acquired;
mod drive;
mod error;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod handover;
mod local;
mod manifest;
#[cfg(feature = "stream")]
mod memory;
mod options;
mod owned;
mod plan;
mod protocol;
mod remote;
mod segments;

pub use acquired::Acquired;
pub use error::HandoverError;
pub use handover::Handover;
pub use object_store;
pub use options::HandoverOptions;
pub use owned::{Owned, Published};
