//! A handler of any type, with the span in which it runs.

use super::delivery::Delivery;
use super::give_up::Unhandled;
#[cfg(feature = "tracing")]
use super::kinds::Description;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// A handler of any type, and its future.
pub(super) type Handler<M> = Arc<dyn Fn(Delivery<M>) -> Handling + Send + Sync>;
pub(super) type Handling = Pin<Box<dyn Future<Output = Result<(), Unhandled>> + Send>>;

/// A function that makes the span of a handler.
#[cfg(feature = "tracing")]
pub(super) type SpanBy<M> = Arc<dyn Fn(&Delivery<M>) -> tracing::Span + Send + Sync>;

/// The spans of handlers: those of a function, or a span that says what is handled.
pub(super) struct Spans<M> {
    #[cfg(feature = "tracing")]
    pub(super) consumer: String,
    #[cfg(feature = "tracing")]
    pub(super) description: Option<Arc<Description<M>>>,
    #[cfg(feature = "tracing")]
    pub(super) span_by: Option<SpanBy<M>>,
    #[cfg(not(feature = "tracing"))]
    pub(super) none: std::marker::PhantomData<fn(&M)>,
}

#[cfg(feature = "tracing")]
impl<M> Spans<M> {
    fn of(&self, delivery: &Delivery<M>) -> tracing::Span {
        if let Some(span_by) = &self.span_by {
            return span_by(delivery);
        }
        let span = tracing::debug_span!(
            "hapax_consumer_handle",
            consumer = self.consumer,
            attempt = delivery.attempt(),
            otel.kind = "consumer",
            messaging.operation.type = "process",
            kind = tracing::field::Empty,
            traceparent = tracing::field::Empty,
        );
        if let Some(description) = self.description.as_ref().filter(|_| !span.is_disabled()) {
            description.record(delivery.message(), &span);
        }
        span
    }
}

/// Returns a handler of any type as one of this crate's. It is called where its panics are caught.
pub(super) fn handler<M, H, F, E>(handle: H, spans: Arc<Spans<M>>) -> Handler<M>
where
    M: Send + Sync + 'static,
    H: Fn(Delivery<M>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: fmt::Display + 'static,
{
    Arc::new(move |delivery| {
        #[cfg(feature = "tracing")]
        let span = spans.of(&delivery);
        #[cfg(feature = "tracing")]
        let handling = tracing::Instrument::instrument(span.in_scope(|| handle(delivery)), span);
        #[cfg(not(feature = "tracing"))]
        let handling = {
            let _ = &spans;
            handle(delivery)
        };
        Box::pin(async move { handling.await.map_err(|error| Unhandled::of(&error)) })
    })
}
