//! Heartbeats against the broker's own time-out: from time to time the broker is told which
//! messages are still worked on here.

use super::calls::{Calls, Happened, call};
use super::messages::Messages;
use crate::source::Source;
use hapax_store::Store;
use std::time::Duration;
use tokio::time::Instant;

/// The time at which the broker is told next.
pub(crate) struct Heartbeat {
    every: Duration,
    next: Instant,
}

impl Heartbeat {
    pub(crate) fn new(every: Duration, now: Instant) -> Self {
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

    /// Tells the broker about all messages that wait or are handled here, in batches, and stops
    /// when it is time for the next one.
    pub(crate) fn begin<'r, S: Store, Src: Source>(
        &mut self,
        now: Instant,
        source: &'r Src,
        messages: &Messages<Src::Message>,
        batch: usize,
        calls: &mut Calls<'r, S, Src>,
    ) {
        if calls.extend.is_some() || !self.is_due(now) {
            return;
        }
        let (every, messages) = (self.every, messages.staying());
        if messages.is_empty() {
            return;
        }
        calls.extend = call(async move {
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
            Happened::Extended(errors)
        });
    }

    pub(crate) fn next(&self) -> Instant {
        self.next
    }
}
