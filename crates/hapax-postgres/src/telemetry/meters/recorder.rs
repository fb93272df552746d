//! Metrics of relays, workers and marks, as `docs/metrics.md` lists them.

use super::Event;
use crate::schema::tables::Queue;
use crate::{Backlog, Seen};
use hapax_message::kinds::Kinds;
use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const MESSAGES: &str = "hapax_queue_messages_total";
const ATTEMPT: &str = "hapax_queue_attempt_seconds";
const LAG: &str = "hapax_queue_lag_seconds";
const IN_FLIGHT: &str = "hapax_queue_in_flight";
const WAITING: &str = "hapax_queue_waiting";
const DUE: &str = "hapax_queue_due";
const DUE_FOR: &str = "hapax_queue_due_seconds";
const OLDEST: &str = "hapax_queue_oldest_seconds";
const DEAD: &str = "hapax_queue_dead";
const PAUSED: &str = "hapax_relay_paused";
const PAUSES: &str = "hapax_relay_pauses_total";
const ONCE: &str = "hapax_once_total";
const ROUTED: &str = "hapax_router_messages_total";

/// The metrics of the relays of a topic or of all topics, or of the workers of a consumer.
pub(crate) struct Recorder {
    queue: Queue,
    name: String,
    kindless: Arc<OfKind>,
    kinds: Kinds<OfKind>,
    in_flight: Gauge,
    waiting: Gauge,
    due: Gauge,
    due_seconds: Gauge,
    oldest_seconds: Gauge,
    dead: Gauge,
    pause: Option<(Gauge, Counter)>,
}

/// The metrics of messages of one kind.
struct OfKind {
    /// The counters of events that happen to messages of this queue.
    events: [Option<Counter>; Event::ALL.len()],
    attempt_seconds: Histogram,
    lag_seconds: Histogram,
}

impl OfKind {
    fn new(queue: Queue, name: &str, kind: &str) -> Self {
        let (of, name, kind) = (queue.name(), || name.to_owned(), || kind.to_owned());
        let counted = |event: Event| {
            let event = event.label(queue)?;
            Some(counter!(MESSAGES, "queue" => of, "name" => name(), "event" => event, "kind" => kind()))
        };
        OfKind {
            events: Event::ALL.map(counted),
            attempt_seconds: histogram!(ATTEMPT, "queue" => of, "name" => name(), "kind" => kind()),
            lag_seconds: histogram!(LAG, "queue" => of, "name" => name(), "kind" => kind()),
        }
    }
}

impl Event {
    /// Returns the event's label; none, if it does not happen to messages of this queue.
    fn label(self, queue: Queue) -> Option<&'static str> {
        match (self, queue) {
            (Event::Done, Queue::Inbox) => Some("handled"),
            (Event::Done, Queue::Outbox) => Some("published"),
            // A relay does not check its lease before it publishes. A pause is its topic's.
            (Event::Lost, Queue::Outbox) | (Event::Paused, _) => None,
            _ => Some(self.name()),
        }
    }
}

fn describe() {
    metrics::describe_counter!(MESSAGES, Unit::Count, "what became of messages that were claimed");
    metrics::describe_histogram!(ATTEMPT, Unit::Seconds, "how long publishing or handling took");
    metrics::describe_histogram!(LAG, Unit::Seconds, "from storing a message until it was published or handled");
    metrics::describe_gauge!(IN_FLIGHT, Unit::Count, "keys, and messages without one, that are being worked on");
    metrics::describe_gauge!(WAITING, Unit::Count, "messages that wait");
    metrics::describe_gauge!(DUE, Unit::Count, "keys, and messages without one, that could be taken now");
    metrics::describe_gauge!(DUE_FOR, Unit::Seconds, "how long the first of these has been due");
    metrics::describe_gauge!(OLDEST, Unit::Seconds, "how old the oldest message is that waits");
    metrics::describe_gauge!(DEAD, Unit::Count, "dead letters");
    metrics::describe_gauge!(
        PAUSED,
        Unit::Count,
        "topics of a relay that pause, since none of their messages could be published"
    );
    metrics::describe_counter!(PAUSES, Unit::Count, "how often a topic paused");
}

impl Recorder {
    pub(super) fn new(queue: Queue, name: &str) -> Self {
        describe();
        let (of, name) = (queue.name(), || name.to_owned());
        let pause = || (gauge!(PAUSED, "name" => name()), counter!(PAUSES, "name" => name()));
        Recorder {
            queue,
            name: name(),
            kindless: Arc::new(OfKind::new(queue, &name(), "")),
            kinds: Kinds::default(),
            in_flight: gauge!(IN_FLIGHT, "queue" => of, "name" => name()),
            waiting: gauge!(WAITING, "queue" => of, "name" => name()),
            due: gauge!(DUE, "queue" => of, "name" => name()),
            due_seconds: gauge!(DUE_FOR, "queue" => of, "name" => name()),
            oldest_seconds: gauge!(OLDEST, "queue" => of, "name" => name()),
            dead: gauge!(DEAD, "queue" => of, "name" => name()),
            pause: (queue == Queue::Outbox).then(pause),
        }
    }

    fn of_kind(&self, kind: Option<&str>) -> Arc<OfKind> {
        let Some(kind) = kind else { return Arc::clone(&self.kindless) };
        self.kinds.of(kind, |label| OfKind::new(self.queue, &self.name, label))
    }

    pub(super) fn happened(&self, event: Event, kind: Option<&str>) {
        if let Some(counter) = &self.of_kind(kind).events[event as usize] {
            counter.increment(1);
        }
    }

    pub(crate) fn took(&self, kind: Option<&str>, took: Duration) {
        self.of_kind(kind).attempt_seconds.record(took.as_secs_f64());
    }

    /// Records how long a message took, by the server's clock and ours: a message that was stored
    /// in our future has not waited.
    pub(crate) fn lagged(&self, kind: Option<&str>, enqueued_at: SystemTime) {
        self.of_kind(kind).lag_seconds.record(enqueued_at.elapsed().unwrap_or_default().as_secs_f64());
    }

    pub(crate) fn in_flight(&self, runs: usize) {
        self.in_flight.set(runs as f64);
    }

    pub(super) fn paused(&self, topics: usize, is_new: bool) {
        let Some((gauge, pauses)) = &self.pause else { return };
        gauge.set(topics as f64);
        pauses.increment(u64::from(is_new));
    }

    pub(super) fn waiting(&self, backlog: &Backlog) {
        self.waiting.set(backlog.waiting as f64);
        self.due.set(backlog.due as f64);
        self.due_seconds.set(backlog.due_for.as_secs_f64());
        self.oldest_seconds.set(backlog.oldest.as_secs_f64());
        self.dead.set(backlog.dead as f64);
    }
}

/// Counts the ids that a consumer has asked about. There is no handle to keep counters in; looking
/// them up costs a microsecond, little beside a round trip.
pub(crate) fn marked(consumer: &str, seen: &[Seen]) {
    let first = seen.iter().filter(|seen| seen.is_first()).count();
    count_seen(consumer, "first", first);
    count_seen(consumer, "duplicate", seen.len() - first);
}

/// Counts a message that a consumer has received, whose id is that of another one.
pub(crate) fn mismatched(consumer: &str) {
    count_seen(consumer, "mismatch", 1);
}

fn count_seen(consumer: &str, seen: &'static str, ids: usize) {
    // Each time: the recorder may be a new one.
    metrics::describe_counter!(ONCE, Unit::Count, "ids that were marked in transactions, or had been before");
    counter!(ONCE, "consumer" => consumer.to_owned(), "seen" => seen).increment(ids as u64);
}

/// Counts a message that a router of this consumer has sent this way.
pub(crate) fn routed(consumer: &str, way: &'static str) {
    metrics::describe_counter!(ROUTED, Unit::Count, "messages that a router has given to handlers, or not");
    counter!(ROUTED, "consumer" => consumer.to_owned(), "way" => way).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_message::kinds::{KINDS_MAX, OTHERS};
    use metrics_util::debugging::DebuggingRecorder;
    use std::collections::BTreeSet;

    #[test]
    fn kinds_that_a_sender_makes_up_share_one_label() {
        let debugging = DebuggingRecorder::new();
        metrics::with_local_recorder(&debugging, || {
            let recorder = Recorder::new(Queue::Inbox, "c");
            for n in 0..10 * KINDS_MAX {
                recorder.happened(Event::Done, Some(&format!("kind-{n}")));
                recorder.happened(Event::Done, Some("kind-0"));
                recorder.took(Some(&format!("kind-{n}")), Duration::from_secs(1));
            }
            recorder.lagged(None, SystemTime::now());
        });
        let mut kinds = BTreeSet::new();
        for (key, _, _, _) in debugging.snapshotter().snapshot().into_vec() {
            kinds
                .extend(key.key().labels().filter(|label| label.key() == "kind").map(|label| label.value().to_owned()));
        }
        assert_eq!(kinds.len(), KINDS_MAX + 2, "with those that have none");
        assert!(
            kinds.contains("") && kinds.contains(OTHERS) && kinds.contains("kind-63") && !kinds.contains("kind-64")
        );
    }
}
