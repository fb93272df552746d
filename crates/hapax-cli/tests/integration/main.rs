//! The command, from outside.

mod filter;
mod store;
