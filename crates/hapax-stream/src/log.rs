//! The consumer of a log: its interface, its memory, and its runs, batch by batch.

mod calls;
pub(super) mod consumer;
pub(super) mod marks;
pub(super) mod memory;
mod run;
pub(super) mod shared;
