//! Messages that are received, handled once, kept, and handled once more on purpose.

mod batches;
mod compared;
pub(super) mod handled;
mod hanging;
mod keeping;
mod marks;
pub(super) mod requeued;
mod routed;
mod sharing;
mod sums;
mod workers;
