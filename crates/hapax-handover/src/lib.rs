#![doc = include_str!("../README.md")]
//!
//! What travels is the journal, with its window, and the segments of a long memory
//! ([`Acquired::open_with_long_memory`]): give [`Acquired::open`] no builder that has one of its
//! own.
//!
//! The protocol, and who checks it: `docs/design/streams.md`.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
