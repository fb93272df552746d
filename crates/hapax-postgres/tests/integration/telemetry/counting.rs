//! Counts marks, as `docs/metrics.md` lists the metric.

use crate::*;
use ::metrics::Unit;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use std::collections::BTreeMap;

#[test]
fn marks_are_counted_by_consumer_and_whether_they_were_first() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, || {
        Place::run(async |place| {
            let mut client = place.client().await;
            let mut tx = client.transaction().await.unwrap();
            for _ in 0..3 {
                let _ = inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap();
            }
            let ids = ["m", "n", "o", "o"];
            let _ = inbox::once_batch(&mut tx, &place.tables, "c", &ids).await.unwrap();
            for payload in ["a", "b"] {
                let (message, how) = (NewMessage::new("p", payload), OnMismatch::Drop);
                let _ = inbox::receive_compared(&mut tx, &place.tables, "c", message, payload, how).await.unwrap();
            }
            tx.commit().await.unwrap();
            let mut counted = BTreeMap::new();
            for (key, unit, _, value) in snapshotter.snapshot().into_vec() {
                let key = key.key();
                if key.name() != "hapax_once_total" {
                    continue;
                }
                let DebugValue::Counter(n) = value else { panic!("{key}: {value:?}") };
                assert_eq!(unit, Some(Unit::Count));
                let labels: Vec<String> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
                counted.insert(labels.join(","), n);
            }
            let expected = [("duplicate", 4), ("first", 3), ("mismatch", 1)];
            let expected = expected.map(|(seen, n)| (format!("consumer=c,seen={seen}"), n));
            assert_eq!(counted, expected.into());
        });
    });
    let documents = include_str!("../../../../../docs/metrics.md");
    assert!(documents.contains("| `hapax_once_total` | counter | ids | `consumer`, `seen` |"));
}
