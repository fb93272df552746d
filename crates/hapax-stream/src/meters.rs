//! Metrics of consumers, as `docs/metrics.md` lists them.

use super::event::Event;
use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};
use std::time::Duration;

const MESSAGES: &str = "hapax_consumer_messages_total";
const HANDLING: &str = "hapax_consumer_handling_seconds";
const HELD: &str = "hapax_consumer_held_messages";

/// Metrics of the consumers of one name.
pub(super) struct ConsumerMeters {
    events: [Counter; Event::ALL.len()],
    handling_seconds: Histogram,
    held: Gauge,
}

impl ConsumerMeters {
    pub(super) fn new(consumer: &str) -> Self {
        metrics::describe_counter!(MESSAGES, Unit::Count, "what became of messages that were received");
        metrics::describe_histogram!(HANDLING, Unit::Seconds, "how long handlers took");
        metrics::describe_gauge!(HELD, Unit::Count, "messages received and not acknowledged");
        let label = || consumer.to_owned();
        ConsumerMeters {
            events: Event::ALL.map(|event| counter!(MESSAGES, "consumer" => label(), "event" => event.name())),
            handling_seconds: histogram!(HANDLING, "consumer" => label()),
            held: gauge!(HELD, "consumer" => label()),
        }
    }

    pub(super) fn happened(&self, event: Event, n: usize) {
        self.events[event as usize].increment(n as u64);
    }

    pub(super) fn handled(&self, took: Duration) {
        self.handling_seconds.record(took.as_secs_f64());
    }

    pub(super) fn holds(&self, messages: usize) {
        self.held.set(messages as f64);
    }
}
