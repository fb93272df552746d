//! Metrics of relays and workers: those that docs/metrics.md lists, and right.

use crate::*;
use metrics::with_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Values by name and labels.
type Emitted = BTreeMap<(String, Vec<(String, String)>), f64>;

/// Adds what was emitted since the last call: gauges have their last value.
fn add(all: &mut Emitted, snapshotter: &Snapshotter) {
    for (key, unit, described, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        assert!(unit.is_some() && described.is_some(), "{key} is not described");
        let labels = key.labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
        let sum = all.entry((key.name().to_owned(), labels)).or_default();
        match value {
            DebugValue::Counter(n) => *sum += n as f64,
            DebugValue::Gauge(value) => *sum = value.into_inner(),
            DebugValue::Histogram(values) => *sum += values.len() as f64,
        }
    }
}

/// Returns the names and labels of queues' metrics in the document.
fn documented() -> BTreeSet<(String, Vec<String>)> {
    let in_quotes = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = include_str!("../../../../../docs/metrics.md").lines();
    let rows = rows.filter(|line| line.starts_with("| `hapax_queue_") || line.starts_with("| `hapax_relay_"));
    let of_row = |row: &str| {
        let cells: Vec<&str> = row.split('|').collect();
        (in_quotes(cells[1]).remove(0), in_quotes(cells[4]))
    };
    rows.map(of_row).collect()
}

fn of(emitted: &Emitted, name: &str, queue: &str, event: Option<&str>) -> f64 {
    let is_of = |labels: &[(String, String)]| {
        let has = |label: &str, value: &str| labels.iter().any(|(of, is)| of == label && is == value);
        has("queue", queue) && event.is_none_or(|event| has("event", event))
    };
    emitted.iter().filter(|((of, labels), _)| of == name && is_of(labels)).map(|(_, value)| value).sum()
}

/// A handler that fails for bad messages, and panics for worse.
struct Judge;

impl Judge {
    fn judge(message: &Message) -> Result<(), BoxError> {
        assert!(message.id != b"worse", "worse");
        if message.id == b"bad" { Err("bad".into()) } else { Ok(()) }
    }
}

impl Publisher for Judge {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        Judge::judge(message)
    }
}

impl Handler for Judge {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        Judge::judge(message)
    }
}

#[test]
fn what_becomes_of_messages_is_counted_under_the_documented_names() {
    let Some(server) = Server::shared() else { return };
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // A recorder of this thread's own: all tasks are on it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let (prefix, tables) = ("metered".to_owned(), Tables::new("public", "metered").unwrap());
            let place = Place { server, tables, prefix };
            place.tables.migrate(&place.client().await).await.unwrap();
            count_all(&place, &snapshotter).await;
        });
    });
}

async fn count_all(place: &Place, snapshotter: &Snapshotter) {
    let mut client = place.client().await;
    let over = std::time::SystemTime::now() - HOUR;
    for id in ["good", "good too", "bad", "worse", "late"] {
        let message = NewMessage::new(id, "");
        let message = if id == "good too" { message.kind("kind") } else { message };
        let message = if id == "late" { message.expires_at(over) } else { message };
        assert_eq!(place.receive(&mut client, "clerk", message).await, Seen::First);
        place.enqueue(&mut client, "t", message).await;
    }
    let (relay, worker) = (place.relay().retry(soon(Some(2))), place.worker("clerk").retry(soon(Some(2))));
    // Waiting messages are counted at once, and then every ten seconds: this is what waited when
    // they began, or whenever the server came to it.
    let (mut emitted, waited) = (RefCell::<Emitted>::default(), RefCell::new([0.0_f64; 2]));
    let look = || {
        let mut emitted = emitted.borrow_mut();
        add(&mut emitted, snapshotter);
        for (waited, queue) in waited.borrow_mut().iter_mut().zip(["outbox", "inbox"]) {
            let now = ["hapax_queue_waiting", "hapax_queue_dead"].map(|gauge| of(&emitted, gauge, queue, None));
            *waited = waited.max(now.iter().sum());
        }
        waited.borrow().iter().all(|waited| *waited > 0.0)
    };
    let stop = || async {
        until("all are done, and were counted", async || {
            let left = "SELECT (SELECT count(*) FROM {p}_outbox WHERE dead_at IS NULL) \
                + (SELECT count(*) FROM {p}_inbox WHERE dead_at IS NULL)";
            look() && place.count(&client, left).await == 0
        })
        .await;
    };
    let (published, handled) = tokio::join!(relay.run(Arc::new(Judge), stop()), worker.run(Arc::new(Judge), stop()));
    published.unwrap();
    handled.unwrap();

    look();
    let emitted = emitted.get_mut();
    let labels = |labels: &[(String, String)]| labels.iter().map(|(label, _)| label.clone()).collect();
    let names: BTreeSet<(String, Vec<String>)> = emitted.keys().map(|(name, of)| (name.clone(), labels(of))).collect();
    assert_eq!(names, documented());
    for (queue, done) in [("outbox", "published"), ("inbox", "handled")] {
        let events = [done, "failed", "panicked", "timed_out", "dead", "expired"];
        let counted = events.map(|event| of(emitted, "hapax_queue_messages_total", queue, Some(event)));
        assert_eq!(counted, [2.0, 4.0, 2.0, 0.0, 2.0, 1.0], "{queue}");
        assert!(of(emitted, "hapax_queue_messages_total", queue, Some("claimed")) >= 7.0, "{queue}");
        assert_eq!(of(emitted, "hapax_queue_attempt_seconds", queue, None), 6.0, "{queue}");
        assert_eq!(of(emitted, "hapax_queue_lag_seconds", queue, None), 2.0, "{queue}");
        assert_eq!(of(emitted, "hapax_queue_in_flight", queue, None), 0.0, "{queue}");
    }
    assert!(waited.borrow().iter().all(|waited| (1.0..=5.0).contains(waited)), "{waited:?}");
    let stats = [relay.stats(), worker.stats()];
    assert!(
        stats.iter().all(|stats| (stats.done, stats.failed, stats.dead, stats.expired) == (2, 4, 2, 1)),
        "{stats:?}"
    );
}
