//! The writing of a segment: the events of a span in order, and the file that is made of them.

pub(super) mod sort;
pub(super) mod writer;
