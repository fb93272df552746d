//! Counts of a consumer.

use super::event::{ConsumerStats, Event, Events};
use super::meters::{ConsumerMeters, KindMeters};
use crate::source::Partition;
use std::time::Duration;

/// Counts, under the name of a consumer.
pub(crate) struct Counts {
    #[cfg(feature = "tracing")]
    consumer: String,
    events: Events,
    pub(crate) meters: ConsumerMeters,
}

impl Counts {
    pub(crate) fn new(consumer: &str) -> Self {
        Counts {
            #[cfg(feature = "tracing")]
            consumer: consumer.to_owned(),
            events: Events::default(),
            meters: ConsumerMeters::new(consumer),
        }
    }

    /// Reports that a handler has failed, perhaps for the last time.
    pub(crate) fn failed(&self, why: &str, is_last: bool) {
        #[cfg(feature = "tracing")]
        tracing::warn!(consumer = self.consumer, why, is_last, "a message could not be handled");
        let _ = (why, is_last);
    }

    /// Reports that the broker could not be told that messages are still worked on.
    pub(crate) fn not_extended(&self, why: &str) {
        #[cfg(feature = "tracing")]
        tracing::warn!(consumer = self.consumer, why, "the broker could not be told that messages are still worked on");
        let _ = why;
    }

    /// Reports that there was nothing but errors for a while.
    pub(crate) fn stalled(&self, since: Duration, why: &str) {
        #[cfg(feature = "tracing")]
        tracing::error!(
            consumer = self.consumer,
            ?since,
            why,
            "nothing was acknowledged, and one error follows the other"
        );
        let _ = (since, why);
    }

    /// Reports that a message has no id.
    pub(crate) fn missing(&self, partition: &Partition) {
        #[cfg(feature = "tracing")]
        tracing::warn!(consumer = self.consumer, %partition, "a message has no id, or a blank one");
        let _ = partition;
    }

    pub(crate) fn add(&self, event: Event, n: usize) {
        self.add_of(None, event, n);
    }

    /// Counts what happened to messages of a kind; `None`: of one that is not told apart.
    pub(crate) fn add_of(&self, kind: Option<&KindMeters>, event: Event, n: usize) {
        self.events.add(event, n as u64);
        self.of(kind).happened(event, n);
    }

    /// Returns the metrics of a kind.
    pub(crate) fn of<'c>(&'c self, kind: Option<&'c KindMeters>) -> &'c KindMeters {
        kind.unwrap_or(self.meters.others())
    }

    pub(crate) fn stats(&self) -> ConsumerStats {
        self.events.stats()
    }
}
