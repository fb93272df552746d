//! Counts of a consumer.

use super::event::Event;
use super::meters::{ConsumerMeters, KindMeters};
use crate::source::Partition;
use hapax_store::sync::{Ordering, StdAtomicU64};
use std::time::Duration;

/// Counts, under the name of a consumer.
pub(crate) struct Counts {
    #[cfg(feature = "tracing")]
    consumer: String,
    events: [StdAtomicU64; Event::ALL.len()],
    pub(crate) meters: ConsumerMeters,
}

impl Counts {
    pub(crate) fn new(consumer: &str) -> Self {
        Counts {
            #[cfg(feature = "tracing")]
            consumer: consumer.to_owned(),
            events: Default::default(),
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
        // Relaxed: counters order nothing.
        self.events[event as usize].fetch_add(n as u64, Ordering::Relaxed);
        self.of(kind).happened(event, n);
    }

    /// Returns the metrics of a kind.
    pub(crate) fn of<'c>(&'c self, kind: Option<&'c KindMeters>) -> &'c KindMeters {
        kind.unwrap_or(self.meters.others())
    }

    pub(crate) fn stats(&self) -> ConsumerStats {
        let of = |event: Event| self.events[event as usize].load(Ordering::Relaxed);
        ConsumerStats {
            received: of(Event::Received),
            handled: of(Event::Handled),
            duplicates: of(Event::Duplicate),
            in_progress: of(Event::InProgress),
            failed: of(Event::Failed),
            panicked: of(Event::Panicked),
            timed_out: of(Event::TimedOut),
            gave_up: of(Event::GaveUp),
            later: of(Event::Later),
            lost: of(Event::Lost),
            refused: of(Event::Refused),
            store_errors: of(Event::StoreError),
            unrecorded: of(Event::Unrecorded),
            missing: of(Event::Missing),
            retried: of(Event::Retried),
            dead_lettered: of(Event::DeadLettered),
            aside_again: of(Event::AsideAgain),
            acknowledged: of(Event::Acknowledged),
            abandoned: of(Event::Abandoned),
            unextended: of(Event::Unextended),
        }
    }
}

/// The counts of a [`Consumer`](crate::Consumer) so far, in all its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerStats {
    /// Messages received, repetitions included.
    pub received: u64,
    /// Handlers that ended well.
    pub handled: u64,
    /// Messages whose id was done already.
    pub duplicates: u64,
    /// Messages whose id was in progress elsewhere.
    pub in_progress: u64,
    /// Handlers that failed, panics and time-outs included.
    pub failed: u64,
    /// Handlers that panicked.
    pub panicked: u64,
    /// Handlers that were dropped, since they were not done within
    /// [`handler_timeout`](crate::ConsumerBuilder::handler_timeout).
    pub timed_out: u64,
    /// Handlers that failed with [`GiveUp`](hapax_message::GiveUp), so that the message was put
    /// aside at once.
    pub gave_up: u64,
    /// Handlers that said [`Later`](crate::Later): these were no attempts.
    pub later: u64,
    /// Claims whose lease had expired before they were completed.
    pub lost: u64,
    /// Claims that were refused: another fingerprint, or too many in flight.
    pub refused: u64,
    /// Claims, completions and flushes that the store could not do.
    pub store_errors: u64,
    /// Messages admitted and handled whose completion could not be recorded, and that were
    /// acknowledged all the same.
    pub unrecorded: u64,
    /// Messages without an id, or with a blank one. By default they are put aside.
    pub missing: u64,
    /// Messages that were given back to the broker, or wait here, to be tried again.
    pub retried: u64,
    /// Messages put aside.
    pub dead_lettered: u64,
    /// Messages that had been put aside before, and came again since the broker had missed it.
    /// Those of an earlier run, or of a broker that gives deliveries no
    /// [names](crate::Source::sent_as), are among the dead letters a second time, and in
    /// `dead_lettered`.
    pub aside_again: u64,
    /// Messages acknowledged.
    pub acknowledged: u64,
    /// Messages whose handling was stopped by a deadline.
    pub abandoned: u64,
    /// Calls of [`Source::extend`](crate::Source::extend) that failed, or took too long.
    pub unextended: u64,
}
