//! The protocol of a bucket: entries are found, inserted, moved and forgotten, by many callers at
//! once.

pub(super) mod bucket;
pub(super) mod bucket_memory;
mod chain;
pub(super) mod forget;
mod patience;
