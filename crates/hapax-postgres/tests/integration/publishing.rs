//! Messages that are enqueued and published, and brokers that misbehave.

mod brokers;
mod poison;
pub(super) mod relays;
