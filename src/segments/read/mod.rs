//! The reading of segments: questions, the filters and pages that answer them, and the places where
//! bytes come from.

pub(super) mod look;
pub(super) mod page_reads;
pub(super) mod segment;
pub(super) mod source;
