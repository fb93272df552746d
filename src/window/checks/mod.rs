//! Checks of one id and of many, made fast.

pub(super) mod batch;
pub(super) mod chunks;
pub(super) mod kernel;
pub(super) mod looks;
mod single;
