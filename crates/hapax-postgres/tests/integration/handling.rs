//! Messages that are received, handled once, kept, and handled once more on purpose.

mod batches;
pub(super) mod handled;
mod hanging;
mod marks;
pub(super) mod requeued;
mod routed;
mod sharing;
mod sums;
mod workers;
