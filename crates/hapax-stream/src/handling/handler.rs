//! A handler of any type, with the span in which it runs, and how its messages are shown.

use super::delivery::Delivery;
use super::failure::{BoxError, OnError, OnErrorBy, Unhandled};
use crate::telemetry::event::Event;
use crate::telemetry::health::Standing;
use crate::telemetry::kinds::Description;
use crate::telemetry::meters::{ConsumerMeters, KindMeters};
use hapax_store::StoredId;
use hapax_store::unwind::{self, Cut};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The largest length of the reason of a failure, in bytes: brokers limit headers and messages, and
/// a parser's error may quote all of a payload.
const REASON_MAX: usize = 1_024;

/// The longest wait that a handler can ask for: a year.
const LATEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// A handler of any type, and its future.
pub(crate) type Handler<M> = Arc<dyn Fn(Delivery<M>) -> Handling + Send + Sync>;
pub(crate) type Handling = Pin<Box<dyn Future<Output = Result<(), Unhandled>> + Send>>;

/// The way in which a handler failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Failed,
    /// It says that another attempt cannot help.
    GaveUp,
    /// It says that this was no attempt, and perhaps after how long another one is to be made.
    Later(Option<Duration>),
    Panicked,
    TimedOut,
}

impl FailureKind {
    /// Returns the events that are counted.
    pub(crate) fn events(self) -> &'static [Event] {
        match self {
            FailureKind::Failed => &[Event::Failed],
            FailureKind::GaveUp => &[Event::Failed, Event::GaveUp],
            FailureKind::Later(_) => &[Event::Later],
            FailureKind::Panicked => &[Event::Failed, Event::Panicked],
            FailureKind::TimedOut => &[Event::Failed, Event::TimedOut],
        }
    }

    /// Returns true if it says something about the message. One that gives up says it itself.
    pub(crate) fn is_attempt(self, standing: &Standing, id: StoredId, random: u64) -> bool {
        match self {
            FailureKind::Later(_) => false,
            FailureKind::GaveUp => true,
            _ => standing.outage().failed(id, Instant::now(), random),
        }
    }

    /// Returns the time after which the message is tried again.
    pub(crate) fn after(self, back_off: impl FnOnce() -> Duration) -> Duration {
        if let FailureKind::Later(Some(after)) = self { after.min(LATEST) } else { back_off() }
    }
}

/// Calls a handler, which is dropped when its time is over. Fails with the reason of its failure.
pub(crate) async fn call<M>(
    handler: &Handler<M>,
    delivery: Delivery<M>,
    timeout: Duration,
) -> Result<(), (String, FailureKind)> {
    // It is called where its panics are caught.
    let handling = async move { handler(delivery).await };
    let (mut why, how) = match unwind::within(timeout, handling).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(Unhandled { why, then: OnError::GiveUp })) => (why, FailureKind::GaveUp),
        Ok(Err(Unhandled { why, then: OnError::Later(after) })) => (why, FailureKind::Later(after)),
        Ok(Err(Unhandled { why, then: OnError::Attempt })) => (why, FailureKind::Failed),
        Err(Cut::Panicked(panic)) => {
            (format!("the handler panicked: {}", unwind::said(&*panic)), FailureKind::Panicked)
        }
        Err(Cut::TimedOut) => {
            (format!("the handler was not done within {timeout:?}: option `handler_timeout`"), FailureKind::TimedOut)
        }
    };
    cut(&mut why);
    Err((why, how))
}

/// Leaves the beginning of a reason, as brokers take it.
pub(crate) fn cut(why: &mut String) {
    let end = (0..=why.len().min(REASON_MAX)).rfind(|&end| why.is_char_boundary(end)).unwrap_or(0);
    why.truncate(end);
}

/// A function that makes the span of a handler.
#[cfg(feature = "tracing")]
type SpanBy<M> = Arc<dyn Fn(&Delivery<M>) -> tracing::Span + Send + Sync>;

/// The ways in which messages are shown: by their kind in metrics, and in the spans of handlers.
pub(crate) struct Shown<M> {
    description: Option<Description<M>>,
    #[cfg(feature = "tracing")]
    consumer: String,
    #[cfg(feature = "tracing")]
    span_by: Option<SpanBy<M>>,
}

impl<M> Default for Shown<M> {
    fn default() -> Self {
        Shown {
            description: None,
            #[cfg(feature = "tracing")]
            consumer: String::new(),
            #[cfg(feature = "tracing")]
            span_by: None,
        }
    }
}

impl<M> Shown<M> {
    pub(crate) fn by(&mut self, description: Description<M>) {
        self.description = Some(description);
    }

    #[cfg(feature = "tracing")]
    pub(crate) fn span_by(&mut self, span_by: impl Fn(&Delivery<M>) -> tracing::Span + Send + Sync + 'static) {
        self.span_by = Some(Arc::new(span_by));
    }

    /// Gives it the name of its consumer.
    pub(crate) fn under(mut self, consumer: &str) -> Arc<Self> {
        #[cfg(feature = "tracing")]
        consumer.clone_into(&mut self.consumer);
        #[cfg(not(feature = "tracing"))]
        let _ = (consumer, &mut self);
        Arc::new(self)
    }

    /// Returns the metrics of a message's kind, if it is told apart.
    pub(crate) fn kind(&self, message: &M, meters: &ConsumerMeters) -> Option<Arc<KindMeters>> {
        self.description.as_ref()?.meters(message, meters)
    }

    #[cfg(feature = "tracing")]
    fn span(&self, delivery: &Delivery<M>) -> tracing::Span {
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
pub(crate) fn handler<M, H, F, E>(handle: H, shown: Arc<Shown<M>>, on_error: Option<OnErrorBy>) -> Handler<M>
where
    M: Send + Sync + 'static,
    H: Fn(Delivery<M>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    Arc::new(move |delivery| {
        #[cfg(feature = "tracing")]
        let span = shown.span(&delivery);
        #[cfg(feature = "tracing")]
        let handling = tracing::Instrument::instrument(span.in_scope(|| handle(delivery)), span);
        #[cfg(not(feature = "tracing"))]
        let handling = {
            let _ = &shown;
            handle(delivery)
        };
        let on_error = on_error.clone();
        Box::pin(async move { handling.await.map_err(|error| Unhandled::of(&*error.into(), on_error.as_ref())) })
    })
}
