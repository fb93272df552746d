//! The engine's tasks, which end when its last handle is dropped.

pub(super) mod expiry;
#[cfg(feature = "metrics")]
pub(super) mod gauges;
pub(super) mod ownership;
pub(super) mod taking_back;
mod ticks;
