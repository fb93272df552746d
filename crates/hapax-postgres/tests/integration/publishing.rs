//! Messages that are enqueued and published, and brokers that misbehave.

mod brokers;
mod enqueuing;
mod poison;
pub(super) mod relays;
mod shrinking;
