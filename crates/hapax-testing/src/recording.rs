//! The recording of histories: threads, what they call, and the stamps around it.

mod follow;
mod pace;
mod probe;
pub(super) mod record;
pub(super) mod recorder;
mod script;
pub(super) mod workload;
