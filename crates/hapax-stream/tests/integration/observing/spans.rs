//! Spans and events, as a subscriber of the test's own sees them.

use super::*;
use hapax_store::{BreakerState, ErrorKind};
use hapax_testing::store::Fault;
use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// The recorded lines, one for each span and event.
#[derive(Clone, Default)]
pub struct Lines {
    pub lines: Arc<Mutex<Vec<String>>>,
    entered: Arc<AtomicU64>,
}

struct Fields<'l>(&'l mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Lines {
    /// Records what happens on this thread, until the guard is dropped.
    pub fn watch(&self) -> (tracing::Dispatch, tracing::subscriber::DefaultGuard) {
        // While there is one subscriber, spans that another thread, without any, is the first to
        // meet are switched off for all. So there are two.
        let another = tracing::Dispatch::new(Lines::default());
        (another, tracing::subscriber::set_default(self.clone()))
    }
}

impl Subscriber for Lines {
    /// Asked each time, and of each thread: else other tests' threads, which have no subscriber,
    /// make spans, too, while this one is there.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("hapax")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = format!("{} span {}", span.metadata().level(), span.metadata().name());
        span.record(&mut Fields(&mut line));
        let mut lines = self.lines.lock().unwrap();
        lines.push(line);
        Id::from_u64(lines.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.lines.lock().unwrap()[span.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = format!("{} event", event.metadata().level());
        event.record(&mut Fields(&mut line));
        self.lines.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {
        self.entered.fetch_add(1, Ordering::Relaxed);
    }

    fn exit(&self, _: &Id) {}
}

#[test]
fn calls_have_spans_and_what_matters_has_events() {
    let seen = Lines::default();
    let _guard = seen.watch();
    run(async {
        let world = World::new();
        let rest = Duration::from_secs(1);
        let engine = engine(&world).circuit_breaker(1, rest).build().await.unwrap();
        assert!(engine.check("a").await.unwrap().is_fresh());
        let spans = seen.lines.lock().unwrap().len();
        assert!(engine.check("a").await.unwrap().is_duplicate());
        assert_eq!(seen.lines.lock().unwrap().len(), spans, "memory answers without a span");
        world.store.next(Fault::Fails(ErrorKind::Unavailable));
        assert!(engine.check("b").await.is_err());
        assert_eq!(engine.stats().breaker, BreakerState::Open);
        tokio::time::sleep(rest).await;
        let _ = engine.check_batch(["b", "c"]).await;
        assert_eq!(engine.warm().await.unwrap(), 3);
    });
    let is_unmark = |line: &String| line.contains("operation=\"unmark\"");
    let (unmarks, lines): (Vec<String>, Vec<String>) =
        seen.lines.lock().unwrap().clone().into_iter().partition(is_unmark);
    // The mark whose answer did not come is taken back in the background, which the store answers.
    assert!(!unmarks.is_empty(), "{lines:#?}");
    let expected = [
        r#"DEBUG span hapax_store_call backend="in memory" operation="mark" ids=1 result="ok""#,
        r#"DEBUG span hapax_store_call backend="in memory" operation="mark" ids=1 result=unavailable"#,
        r#"WARN event message=the store fails again and again: the circuit breaker opens backend="in memory""#,
        r#"INFO event message=the store answers again: the circuit breaker closes backend="in memory""#,
        r#"DEBUG span hapax_store_call backend="in memory" operation="mark" ids=2 result="ok""#,
        r#"DEBUG span hapax_store_call backend="in memory" operation="scan" ids=10000 result="ok""#,
        r#"INFO event message=the memory tiers are warm backend="in memory" ids=3"#,
    ];
    assert_eq!(lines, expected, "{lines:#?}");
    assert!(seen.entered.load(Ordering::Relaxed) >= 4, "calls are made within their spans");
}

#[test]
fn an_owner_that_was_replaced_says_so() {
    let seen = Lines::default();
    let _guard = seen.watch();
    run(async {
        let world = World::new();
        let engine = engine(&world).ownership(hapax_store::Ownership::Exclusive).build().await.unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(engine.check("a").await.is_ok());
        world.clock.advance(Duration::from_secs(60));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(engine.check("b").await.unwrap_err().kind(), ErrorKind::Conflict);
    });
    let lines = seen.lines.lock().unwrap();
    let error = lines.iter().find(|line| line.starts_with("ERROR")).unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(
        error.contains("no longer the owner") && error.contains("another engine may have taken it over"),
        "{error}"
    );
}
