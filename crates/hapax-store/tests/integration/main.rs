//! The asynchronous engine, versions in memory in front of a store, functions that run once, and
//! the budgeted store.

mod budgeted;
mod once;
mod tiered;
