//! Adapters of streams: without their duplicates.

mod batched;
pub(super) mod ext;
