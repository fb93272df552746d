//! Output: where it goes, in which pieces, and the files beside it.

pub(super) mod count;
pub(super) mod duplicates_file;
pub(super) mod output;
mod pieces;
mod repeated;
