//! Output: where it goes, in which pieces, and the files beside it.

pub(super) mod count;
pub(super) mod duplicates_file;
pub(super) mod output;
pub(super) mod pending;
mod pieces;
mod repeated;
mod target;
