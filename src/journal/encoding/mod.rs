//! The bytes of a journal: blocks, what is in them, and the gaps between them. Pure.

pub(crate) mod format;
pub(super) mod gap;
pub(super) mod payload;
pub(super) mod positions;
