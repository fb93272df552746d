//! The parts that all handlers of a worker have in common.

use super::kept_records::Keep;
use super::waiting::Waiting;
use crate::Message;
use crate::claims::retry::Retry;
use crate::database::{Database, NET};
use crate::schema::tables::Tables;
use crate::telemetry::meters::Meters;
use hapax_store::sync::StdAtomicBool;
use std::sync::Arc;
use std::time::Duration;

/// The parts that all batches of a worker have in common.
pub(super) struct Work<H> {
    pub database: Database,
    pub tables: Tables,
    pub retry: Retry,
    /// The time that a handler may take.
    pub lease: Duration,
    pub keep: Keep,
    pub processor: Option<String>,
    pub handler: Arc<H>,
    pub meters: Meters,
    /// True once the messages that were claimed and not begun are to be given back.
    pub is_stopping: StdAtomicBool,
    pub waiting: Waiting,
}

impl<H> Work<H> {
    /// Returns how long the server keeps a message for us: as long as a handler may take, and a
    /// while to settle it.
    pub(super) fn leased(&self) -> Duration {
        self.lease + self.to_settle()
    }

    /// Returns how long it keeps it after a handler's time is over. Half of that is enough where
    /// the claim has just been made.
    pub(super) fn to_settle(&self) -> Duration {
        (self.lease / 2).clamp(Duration::from_millis(50), NET)
    }

    /// Returns true if a message is given up untried: all its attempts were begun.
    pub(super) fn is_hopeless(&self, message: &Message) -> bool {
        message.attempts > 0 && self.retry.is_last(message.attempts)
    }
}
