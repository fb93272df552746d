//! The asynchronous engine, versions in memory in front of a store, and functions that run once.

mod once;
mod tiered;
