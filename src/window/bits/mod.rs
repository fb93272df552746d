//! The bits of a window's entries, and its time in them. Pure.

pub(super) mod division;
pub(super) mod slot;
pub(super) mod tick;
