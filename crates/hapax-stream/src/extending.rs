//! Heartbeats against the broker's own time-out: from time to time the broker is told which
//! messages are still worked on here.

use super::run::Run;
use super::source::Source;
use super::stats::Event;
use hapax_store::Store;
use std::time::Duration;
use tokio::time::Instant;

/// The time at which the broker is told next.
pub(super) struct Heartbeat {
    every: Duration,
    next: Instant,
}

impl Heartbeat {
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        let every = every.clamp(Duration::from_millis(1), Duration::from_secs(24 * 3_600));
        Heartbeat { every, next: now + every }
    }

    /// Returns true if it is due, once each time. A missed one is not made up for.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + self.every;
        }
        is_due
    }
}

impl<S: Store, Src: Source> Run<'_, S, Src> {
    /// Tells the broker about all messages that wait or are handled here, in batches, and stops
    /// when it is time for the next one.
    pub(super) fn begin_extending(&mut self, now: Instant) {
        let Some(heartbeat) = &mut self.heartbeat else { return };
        if self.calls.extend.is_some() || !heartbeat.is_due(now) {
            return;
        }
        let (every, batch, source) = (heartbeat.every, self.consumer.options.batch, self.source);
        let messages = self.messages.staying();
        if messages.is_empty() {
            return;
        }
        self.calls.extend = Some(Box::pin(async move {
            let mut errors = Vec::new();
            let extending = async {
                for some in messages.chunks(batch) {
                    if let Err(error) = source.extend(some).await {
                        errors.push(error.to_string());
                    }
                }
            };
            if tokio::time::timeout(every, extending).await.is_err() {
                errors.push(format!("not done within {every:?}"));
            }
            errors
        }));
    }

    /// Counts the errors. A message that the broker was not told of is in the next heartbeat. If
    /// the broker delivers it elsewhere meanwhile, the other consumer finds the id in progress.
    pub(super) fn extended(&mut self, errors: Vec<String>) {
        self.count(Event::Unextended, errors.len());
        errors.iter().for_each(|error| self.consumer.counts.not_extended(error));
    }

    pub(super) fn next_heartbeat(&self) -> Option<Instant> {
        let is_waiting = self.calls.extend.is_none() && self.messages.len() > 0;
        self.heartbeat.as_ref().filter(|_| is_waiting).map(|heartbeat| heartbeat.next)
    }
}
