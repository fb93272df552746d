//! The metrics, spans and events of a consumer.

use super::metrics::{emitted, recorded, sum};
use super::spans::Lines;
use super::*;
use hapax_stream::{Consumer, Delivery, Source};
use std::convert::Infallible;
use std::sync::Mutex;

/// A queue that delivers two good messages, one of them twice, and one that cannot be handled.
struct Queue(Mutex<Vec<&'static str>>);

impl Source for Queue {
    type Message = &'static str;
    type Error = Infallible;

    async fn receive(&self, _: usize) -> Result<Option<Vec<&'static str>>, Infallible> {
        let left = std::mem::take(&mut *self.0.lock().unwrap());
        Ok((!left.is_empty()).then_some(left))
    }

    async fn acknowledge(&self, _: &[Arc<&'static str>]) -> Result<(), Infallible> {
        Ok(())
    }

    async fn retry(&self, message: &Arc<&'static str>, _: Duration) -> Result<(), Infallible> {
        self.0.lock().unwrap().push(message);
        Ok(())
    }

    async fn dead_letter(&self, _: &Arc<&'static str>, _: &str) -> Result<(), Infallible> {
        Ok(())
    }
}

async fn consume(world: &World) {
    let engine = world.engine().build().await.unwrap();
    engine.claim("done").await.unwrap().claimed().unwrap().complete().await.unwrap();
    let consumer = Consumer::builder(engine, |message: &&str| Some(*message)).name("orders").max_attempts(1);
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
    assert_eq!(count(r#"DEBUG span hapax_consumer_handle consumer="orders" attempt=1"#), 2, "{lines:#?}");
    let failure = r#"WARN event message=a message could not be handled consumer="orders" why="no" is_last=true"#;
    assert_eq!(count(failure), 1, "{lines:#?}");
}
