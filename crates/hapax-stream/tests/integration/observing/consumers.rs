//! The metrics, spans and events of a consumer.

use super::metrics::{emitted, recorded, sum};
use super::spans::Lines;
use super::*;
use hapax_message::Described;
use hapax_message::cloudevents::Event;
use hapax_stream::{Consumer, Delivery, Source};
use std::convert::Infallible;
use std::sync::Mutex;

/// A queue in memory.
struct Queue<M>(Mutex<Vec<M>>);

impl<M: Clone + Send + Sync + 'static> Source for Queue<M> {
    type Message = M;
    type Error = Infallible;

    async fn receive(&self, _: usize) -> Result<Option<Vec<M>>, Infallible> {
        let left = std::mem::take(&mut *self.0.lock().unwrap());
        Ok((!left.is_empty()).then_some(left))
    }

    async fn acknowledge(&self, _: &[Arc<M>]) -> Result<(), Infallible> {
        Ok(())
    }

    async fn retry(&self, message: &Arc<M>, _: Duration) -> Result<(), Infallible> {
        self.0.lock().unwrap().push(M::clone(message));
        Ok(())
    }

    async fn dead_letter(&self, _: &Arc<M>, _: &str) -> Result<(), Infallible> {
        Ok(())
    }
}

async fn consume(world: &World) {
    let engine = world.engine().build().await.unwrap();
    engine.with_subscope("orders").unwrap().claim("done").await.unwrap().claimed().unwrap().complete().await.unwrap();
    let consumer = Consumer::builder("orders", engine, |message: &&str| Some(*message)).max_attempts(1);
    let queue = Queue(Mutex::new(vec!["good", "done", "bad"]));
    let handle = |message: Delivery<&'static str>| async move { if *message == "bad" { Err("no") } else { Ok(()) } };
    let stats = consumer.build().unwrap().run(&queue, handle, std::future::pending()).await.unwrap();
    assert_eq!((stats.received, stats.acknowledged), (3, 3));
}

#[test]
fn messages_are_counted_by_what_became_of_them() {
    recorded(async |world, snapshotter| {
        consume(world).await;
        let emitted = emitted(snapshotter);
        let of = |event| sum(&emitted, "hapax_consumer_messages_total", &[("consumer", "orders"), ("event", event)]);
        let counted = ["received", "handled", "duplicate", "failed", "dead_lettered", "acknowledged"].map(of);
        assert_eq!(counted, [3.0, 1.0, 1.0, 1.0, 1.0, 3.0]);
        assert_eq!(sum(&emitted, "hapax_consumer_messages_total", &[]), 10.0);
        assert_eq!(sum(&emitted, "hapax_consumer_handling_seconds", &[("consumer", "orders")]), 2.0);
        assert_eq!(sum(&emitted, "hapax_consumer_held_messages", &[]), 0.0);
    });
}

#[test]
fn handlers_have_spans_and_their_failures_events() {
    let seen = Lines::default();
    let _guard = seen.watch();
    run(async { consume(&World::new()).await });
    let lines = seen.lines.lock().unwrap();
    let count = |expected| lines.iter().filter(|line| *line == expected).count();
    assert_eq!(
        count(
            r#"DEBUG span hapax_consumer_handle consumer="orders" attempt=1 otel.kind="consumer" messaging.operation.type="process""#
        ),
        2,
        "{lines:#?}"
    );
    let failure = r#"WARN event message=a message could not be handled consumer="orders" why="no" is_last=true"#;
    assert_eq!(count(failure), 1, "{lines:#?}");
}

const OTEL: &str = r#"otel.kind="consumer" messaging.operation.type="process""#;
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn event(id: &str, kind: &str) -> Event {
    Event::new(id, "/orders", kind).unwrap().with_extension("traceparent", TRACE).unwrap()
}

/// Consumes events of two kinds, and of a hundred that somebody has invented.
async fn consume_kinds(world: &World, kind_of: fn(&Event) -> Option<String>) {
    let engine = world.engine().build().await.unwrap();
    let consumer = Consumer::builder("orders", engine, |event: &Event| event.id().map(|id| id.into_owned()));
    let consumer = consumer.max_attempts(1).kinds_by(kind_of).build().unwrap();
    let mut events = vec![event("1", "placed"), event("1", "placed"), event("2", "paid"), event("3", "placed")];
    events.extend((0..100).map(|n| event(&format!("x-{n}"), &format!("invented-{n}"))));
    let handle = |event: Delivery<Event>| async move { if event.event_id() == "3" { Err("no") } else { Ok(()) } };
    let stats = consumer.run(&Queue(Mutex::new(events)), handle, std::future::pending()).await.unwrap();
    assert_eq!((stats.received, stats.acknowledged), (104, 104));
}

#[test]
fn kinds_are_told_apart_and_no_more_than_that() {
    recorded(async |world, snapshotter| {
        let known = |event: &Event| event.kind().filter(|kind| ["placed", "paid"].contains(kind)).map(str::to_owned);
        consume_kinds(world, known).await;
        let emitted = emitted(snapshotter);
        let of = |kind, event| sum(&emitted, "hapax_consumer_messages_total", &[("kind", kind), ("event", event)]);
        let counted = ["received", "handled", "duplicate", "failed", "dead_lettered", "acknowledged"];
        assert_eq!(counted.map(|event| of("placed", event)), [3.0, 1.0, 1.0, 1.0, 1.0, 3.0]);
        assert_eq!(counted.map(|event| of("paid", event)), [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(counted.map(|event| of("*", event)), [100.0, 100.0, 0.0, 0.0, 0.0, 100.0]);
        let handled = |kind| sum(&emitted, "hapax_consumer_handling_seconds", &[("kind", kind)]);
        assert_eq!(["placed", "paid", "*"].map(handled), [2.0, 1.0, 100.0]);
        let kinds = emitted.keys().flat_map(|(_, labels)| labels).filter(|(label, _)| label == "kind");
        let kinds: std::collections::BTreeSet<&str> = kinds.map(|(_, kind)| kind.as_str()).collect();
        assert!(kinds.contains("paid") && !kinds.iter().any(|kind| kind.starts_with("invented")), "{kinds:?}");
    });
}

#[test]
fn spans_say_kind_and_trace() {
    let seen = Lines::default();
    let _guard = seen.watch();
    run(async { consume_kinds(&World::new(), |event| event.kind().map(str::to_owned)).await });
    let lines = seen.lines.lock().unwrap();
    let of = |kind: &str, trace: &str| {
        format!(
            r#"DEBUG span hapax_consumer_handle consumer="orders" attempt=1 {OTEL} kind="{kind}" traceparent="{trace}""#
        )
    };
    let count = |expected: String| lines.iter().filter(|line| **line == expected).count();
    assert_eq!(count(of("placed", TRACE)), 2, "{lines:#?}");
    assert_eq!(count(of("invented-7", TRACE)), 1, "spans are as many as messages, whatever they are");
}

#[test]
fn a_span_may_be_the_callers() {
    let seen = Lines::default();
    let _guard = seen.watch();
    run(async {
        let engine = World::new().engine().build().await.unwrap();
        let consumer = Consumer::builder("orders", engine, |message: &&str| Some(*message));
        let span_by = |delivery: &Delivery<&'static str>| tracing::info_span!(target: "hapax_test", "mine", message = **delivery, attempt = delivery.attempt());
        let consumer = consumer.span_by(span_by).build().unwrap();
        let handle = |_: Delivery<&'static str>| async {
            tracing::info!(target: "hapax_test", "it is handled");
            Ok::<(), String>(())
        };
        consumer.run(&Queue(Mutex::new(vec!["a"])), handle, std::future::pending()).await.unwrap();
    });
    let lines = seen.lines.lock().unwrap();
    assert!(lines.contains(&r#"INFO span mine message="a" attempt=1"#.to_owned()), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("hapax_consumer_handle")), "{lines:#?}");
}
