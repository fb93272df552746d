//! The segments that count: the manifest that lists them, and what adds, merges, fetches and copies
//! them.

mod download;
mod durable;
mod incoming_file;
pub(super) mod manifest;
mod merge;
pub(super) mod seal_and_merge;
pub(super) mod set;
pub(super) mod stats;
