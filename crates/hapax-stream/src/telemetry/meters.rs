//! Metrics of consumers, as `docs/metrics.md` lists them.

use super::event::Event;
use super::health::Health;
use hapax::Dedup;
use hapax_message::kinds::OTHERS;
use hapax_store::{EngineMetrics, SAMPLED_EVERY, sampled};
use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

const MESSAGES: &str = "hapax_consumer_messages_total";
const HANDLING: &str = "hapax_consumer_handling_seconds";
const HELD: &str = "hapax_consumer_held_messages";
const PAUSED: &str = "hapax_consumer_paused";
const OUTAGE: &str = "hapax_consumer_outage_seconds";
const STALLED: &str = "hapax_consumer_stalled_seconds";
const IN_DOUBT: &str = "hapax_consumer_in_doubt_seconds";

/// Metrics of the consumers of one name.
pub(crate) struct ConsumerMeters {
    consumer: String,
    others: KindMeters,
    held: Gauge,
    paused: Gauge,
    outage: Gauge,
    stalled: Gauge,
    in_doubt: Gauge,
    /// Locked while a window is read, perhaps by a thread.
    reading: Arc<Mutex<()>>,
}

/// Metrics of a kind of messages.
pub(crate) struct KindMeters {
    events: [Counter; Event::ALL.len()],
    handling_seconds: Histogram,
}

impl ConsumerMeters {
    pub(crate) fn new(consumer: &str) -> Self {
        metrics::describe_counter!(MESSAGES, Unit::Count, "what became of messages that were received");
        metrics::describe_histogram!(HANDLING, Unit::Seconds, "how long handlers took");
        metrics::describe_gauge!(HELD, Unit::Count, "messages received and not acknowledged");
        metrics::describe_gauge!(PAUSED, Unit::Count, "one while the consumer is paused");
        metrics::describe_gauge!(OUTAGE, Unit::Seconds, "since when different messages fail one after another");
        metrics::describe_gauge!(STALLED, Unit::Seconds, "since when there is nothing but errors, after a minute");
        metrics::describe_gauge!(IN_DOUBT, Unit::Seconds, "since when the oldest claim that was met is in doubt");
        let gauge = |name: &'static str| gauge!(name, "consumer" => consumer.to_owned());
        ConsumerMeters {
            consumer: consumer.to_owned(),
            others: KindMeters::new(consumer, OTHERS),
            held: gauge(HELD),
            paused: gauge(PAUSED),
            outage: gauge(OUTAGE),
            stalled: gauge(STALLED),
            in_doubt: gauge(IN_DOUBT),
            reading: Arc::default(),
        }
    }

    /// Returns the metrics of a kind.
    pub(crate) fn of_kind(&self, kind: &str) -> KindMeters {
        KindMeters::new(&self.consumer, kind)
    }

    /// Returns the metrics of all kinds that are not told apart.
    pub(crate) fn others(&self) -> &KindMeters {
        &self.others
    }

    pub(crate) fn holds(&self, messages: usize) {
        self.held.set(messages as f64);
    }

    pub(crate) fn stands(&self, health: &Health) {
        let seconds = |time: &Duration| time.as_secs_f64();
        let (paused, outage, stalled) = match health {
            Health::Good | Health::Bypassed => (0.0, 0.0, 0.0),
            Health::Paused => (1.0, 0.0, 0.0),
            Health::Outage(since) => (0.0, seconds(since), 0.0),
            Health::Stalled { since, .. } => (0.0, 0.0, seconds(since)),
        };
        self.paused.set(paused);
        self.outage.set(outage);
        self.stalled.set(stalled);
    }

    pub(crate) fn doubts(&self, oldest: Duration) {
        self.in_doubt.set(oldest.as_secs_f64());
    }

    /// Shows the memory of an engine under the consumer's name, again and again.
    pub(crate) async fn show_memory_of(&self, engine: &Dedup) -> Infallible {
        let metrics = Arc::new(EngineMetrics::new(&self.consumer));
        loop {
            let (engine, window_bytes, metrics) =
                (engine.clone(), hapax::seam::window_bytes(engine), Arc::clone(&metrics));
            let reading = Arc::clone(&self.reading).lock_owned().await;
            let sample = move || {
                metrics.show(&engine.stats());
                drop(engine);
                drop(reading);
            };
            sampled(window_bytes, sample).await;
            tokio::time::sleep(SAMPLED_EVERY).await;
        }
    }

    /// Waits until no thread reads a window any more: it keeps the engine, and so its directory.
    pub(crate) async fn at_rest(&self) {
        drop(self.reading.lock().await);
    }
}

impl KindMeters {
    fn new(consumer: &str, kind: &str) -> Self {
        let counter = |event: Event| counter!(MESSAGES, "consumer" => consumer.to_owned(), "kind" => kind.to_owned(), "event" => event.name());
        KindMeters {
            events: Event::ALL.map(counter),
            handling_seconds: histogram!(HANDLING, "consumer" => consumer.to_owned(), "kind" => kind.to_owned()),
        }
    }

    pub(crate) fn happened(&self, event: Event, n: usize) {
        self.events[event as usize].increment(n as u64);
    }

    pub(crate) fn handled(&self, took: Duration) {
        self.handling_seconds.record(took.as_secs_f64());
    }
}
