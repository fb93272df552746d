//! The consumer of a broker that takes acknowledgements message by message: its interface, its
//! runs, and what a run holds and waits for.

mod attempts;
mod begin;
mod calls;
mod claiming;
mod completing;
pub(super) mod consumer;
mod drains;
mod handling;
mod heartbeat;
mod lanes;
mod messages;
mod outcomes;
mod receive;
mod run;
