//! Handlers: what they are given, how each is run and routed to, and what their errors mean.

pub(super) mod attempt;
pub(super) mod counting;
pub(super) mod delivery;
pub(super) mod failure;
pub(super) mod handle;
pub(super) mod handler;
pub(super) mod router;
pub(super) mod takeover;
