//! Claims of messages that wait: how they are found and claimed, tried, tried again, and settled,
//! or kept as dead letters.

pub(super) mod attempt;
pub(super) mod claimer;
pub(super) mod dead_letters;
mod places;
pub(super) mod queue;
pub(super) mod retry;
pub(super) mod settlement;
