//! Inputs: opened, decompressed, cut into blocks and lines, and gone on with where an earlier run
//! was.

pub mod blocks;
pub(super) mod checkpoint;
mod elements;
pub(super) mod encoding;
pub mod input;
pub mod lines;
pub(super) mod merge;
pub mod named;
pub(super) mod parse;
pub(super) mod reading;
pub(super) mod resume;
pub(super) mod sample;
