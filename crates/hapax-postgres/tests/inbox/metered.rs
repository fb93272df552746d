//! Metrics of relays and workers: those that docs/metrics.md lists, and right.

use crate::*;
use metrics::with_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::{BTreeMap, BTreeSet};

/// Values by name and labels.
type Emitted = BTreeMap<(String, Vec<(String, String)>), f64>;

fn emitted(snapshotter: &Snapshotter) -> Emitted {
    let entry = |(key, unit, described, value): (metrics_util::CompositeKey, Option<_>, Option<_>, DebugValue)| {
        let key = key.key();
        assert!(unit.is_some() && described.is_some(), "{key} is not described");
        let labels = key.labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
        let value = match value {
            DebugValue::Counter(n) => n as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        ((key.name().to_owned(), labels), value)
    };
    snapshotter.snapshot().into_vec().into_iter().map(entry).collect()
}

/// Returns the names and labels of queues' metrics in the document.
fn documented() -> BTreeSet<(String, Vec<String>)> {
    let in_quotes = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = include_str!("../../../../docs/metrics.md").lines();
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
        let message = if id == "late" { message.expires_at(over) } else { message };
        assert_eq!(place.receive(&mut client, "clerk", message).await, Seen::First);
        place.enqueue(&mut client, "t", message).await;
    }
    let (relay, worker) = (place.relay().retry(soon(Some(2))), place.worker("clerk").retry(soon(Some(2))));
    let stop = || async {
        until("all are done", async || {
            let left = "SELECT (SELECT count(*) FROM {p}_outbox WHERE dead_at IS NULL) \
                + (SELECT count(*) FROM {p}_inbox WHERE dead_at IS NULL)";
            place.count(&client, left).await == 0
        })
        .await;
    };
    let (published, handled) = tokio::join!(relay.run(Arc::new(Judge), stop()), worker.run(Arc::new(Judge), stop()));
    published.unwrap();
    handled.unwrap();

    let emitted = emitted(snapshotter);
    let labels = |labels: &[(String, String)]| labels.iter().map(|(label, _)| label.clone()).collect();
    let names: BTreeSet<(String, Vec<String>)> = emitted.keys().map(|(name, of)| (name.clone(), labels(of))).collect();
    assert_eq!(names, documented());
    for (queue, done) in [("outbox", "published"), ("inbox", "handled")] {
        let events = [done, "failed", "panicked", "timed_out", "dead", "expired"];
        let counted = events.map(|event| of(&emitted, "hapax_queue_messages_total", queue, Some(event)));
        assert_eq!(counted, [2.0, 4.0, 2.0, 0.0, 2.0, 1.0], "{queue}");
        assert!(of(&emitted, "hapax_queue_messages_total", queue, Some("claimed")) >= 7.0, "{queue}");
        assert_eq!(of(&emitted, "hapax_queue_attempt_seconds", queue, None), 6.0, "{queue}");
        assert_eq!(of(&emitted, "hapax_queue_lag_seconds", queue, None), 2.0, "{queue}");
        assert_eq!(of(&emitted, "hapax_queue_in_flight", queue, None), 0.0, "{queue}");
    }
    // Waiting messages are counted at once, and then every ten seconds: this is what waited when
    // they began.
    for queue in ["outbox", "inbox"] {
        let waited = of(&emitted, "hapax_queue_waiting", queue, None) + of(&emitted, "hapax_queue_dead", queue, None);
        assert!((1.0..=5.0).contains(&waited), "{queue}: {waited}");
    }
    let stats = [relay.stats(), worker.stats()];
    assert!(
        stats.iter().all(|stats| (stats.done, stats.failed, stats.dead, stats.expired) == (2, 4, 2, 1)),
        "{stats:?}"
    );
}
