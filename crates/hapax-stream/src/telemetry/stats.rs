//! Counts of a consumer.

use super::meters::{ConsumerMeters, KindMeters};
use crate::source::Partition;
use std::time::Duration;

hapax::counted! {
    /// The counts of a [`Consumer`](crate::Consumer) so far, in all its runs.
    ConsumerStats,
    pub(crate) Event in Events {
        /// Messages received, repetitions included.
        received: Received,
        /// Handlers that ended well.
        handled: Handled,
        /// Messages whose id was done already.
        duplicate: Duplicate,
        /// Messages whose id was in progress elsewhere.
        in_progress: InProgress,
        /// Handlers that failed, panics and time-outs included.
        failed: Failed,
        /// Handlers that panicked.
        panicked: Panicked,
        /// Handlers that were dropped, since they were not done within
        /// [`handler_timeout`](crate::ConsumerBuilder::handler_timeout).
        timed_out: TimedOut,
        /// Handlers that failed with [`GiveUp`](hapax_message::GiveUp), so that the message was put
        /// aside at once.
        gave_up: GaveUp,
        /// Handlers that said [`Later`](crate::Later): these were no attempts.
        later: Later,
        /// Claims whose lease had expired before they were completed.
        lost: Lost,
        /// Claims that were refused: another fingerprint, or too many in flight.
        refused: Refused,
        /// Claims, completions and flushes that the store could not do.
        store_error: StoreError,
        /// Messages admitted and handled whose completion could not be recorded, and that were
        /// acknowledged all the same.
        unrecorded: Unrecorded,
        /// Messages without an id, or with a blank one. By default they are put aside.
        missing: Missing,
        /// Messages that were given back to the broker, or wait here, to be tried again.
        retried: Retried,
        /// Messages put aside.
        dead_lettered: DeadLettered,
        /// Messages that had been put aside before, and came again since the broker had missed it.
        /// Those of an earlier run, or of a broker that gives deliveries no
        /// [names](crate::Source::sent_as), are among the dead letters a second time, and in
        /// `dead_lettered`.
        aside_again: AsideAgain,
        /// Messages acknowledged.
        acknowledged: Acknowledged,
        /// Messages whose handling was stopped by a deadline.
        abandoned: Abandoned,
        /// Calls of [`Source::extend`](crate::Source::extend) that failed, or took too long.
        unextended: Unextended,
    }
}

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
