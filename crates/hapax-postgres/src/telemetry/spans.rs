//! Spans around handlers and publishers, as `docs/metrics.md` lists them: with what a message says
//! of itself, and the trace that it belongs to.

use crate::Message;
use hapax_message::TraceContext;
use tracing::instrument::{Instrument as _, Instrumented};
use tracing::{Span, debug_span, field};

/// Runs an attempt of a handler in a span of its own. Each of several messages has one within it,
/// which ends at once.
pub(crate) fn handling<F: Future>(messages: &[&Message], processor: Option<&str>, handling: F) -> Instrumented<F> {
    if let [message] = messages {
        return handling.instrument(of_attempt(message, processor));
    }
    let span = debug_span!("hapax_worker_handle_batch", messages = messages.len());
    if !span.is_disabled() {
        span.in_scope(|| messages.iter().for_each(|message| drop(of_attempt(message, processor))));
    }
    handling.instrument(span)
}

fn of_attempt(message: &Message, processor: Option<&str>) -> Span {
    let span = debug_span!(
        "hapax_worker_handle",
        consumer = message.name,
        processor,
        attempt = message.attempts.saturating_add(1),
        otel.kind = "consumer",
        messaging.operation.type = "process",
        id = field::Empty,
        kind = message.kind,
        source = message.source,
        subject = message.subject,
        traceparent = field::Empty,
        trace_id = field::Empty
    );
    say(&span, message);
    span
}

/// Runs a publication in a span of its own.
pub(crate) fn publishing<F: Future>(message: &Message, publishing: F) -> Instrumented<F> {
    publishing.instrument(of_publication(message))
}

/// Runs a publication of several messages in a span of its own. Each of them has one within it,
/// which ends at once: a batch belongs to many traces.
pub(crate) fn publishing_batch<F: Future>(messages: &[Message], publishing: F) -> Instrumented<F> {
    let span = debug_span!("hapax_relay_publish_batch", messages = messages.len());
    if !span.is_disabled() {
        span.in_scope(|| messages.iter().for_each(|message| drop(of_publication(message))));
    }
    publishing.instrument(span)
}

fn of_publication(message: &Message) -> Span {
    let span = debug_span!(
        "hapax_relay_publish",
        topic = message.name,
        attempt = message.attempts.saturating_add(1),
        otel.kind = "producer",
        messaging.operation.type = "send",
        id = field::Empty,
        kind = message.kind,
        source = message.source,
        subject = message.subject,
        traceparent = field::Empty,
        trace_id = field::Empty
    );
    say(&span, message);
    span
}

/// Records the id, if it is text, and the trace, if there is one that follows the rules. A trace id
/// is that of the message's sender: a layer for OpenTelemetry links or continues it.
fn say(span: &Span, message: &Message) {
    if span.is_disabled() {
        return;
    }
    if let Ok(id) = std::str::from_utf8(&message.id) {
        span.record("id", id);
    }
    if let Some(trace) = TraceContext::of(message) {
        let traceparent = trace.traceparent();
        span.record("traceparent", &*traceparent);
        span.record("trace_id", traceparent.get(3..35).unwrap_or_default());
    }
}
