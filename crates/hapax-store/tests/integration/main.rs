//! The asynchronous engine, and versions in memory in front of a store.

mod tiered;
mod tiered_latest;
