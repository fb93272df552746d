//! The command, from outside.

mod filter;
mod marks;
mod store;
mod verify;
