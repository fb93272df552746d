//! A handler of any type, with the span in which it runs, and how its messages are shown.

use super::delivery::Delivery;
use super::failure::{BoxError, OnError, OnErrorBy, Unhandled};
use crate::telemetry::event::Event;
use crate::telemetry::health::Standing;
use crate::telemetry::kinds::Description;
use crate::telemetry::meters::{ConsumerMeters, KindMeters};
use hapax_message::Answers;
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
pub(crate) type Handler<D, A = ()> = Arc<dyn Fn(D) -> Handling<A> + Send + Sync>;
pub(crate) type Handling<A> = Pin<Box<dyn Future<Output = Result<A, Unhandled>> + Send>>;

/// The handler of a consumer: of a message at a time, or of a batch, some of whose messages fail.
pub(crate) enum Handle<M> {
    Each(Handler<Delivery<M>>),
    Batches(Handler<Vec<Delivery<M>>, Vec<(usize, Unhandled)>>),
}

impl<M> Handle<M> {
    /// Calls it, as [`call`] does. Returns the errors of single messages, by their places.
    pub(crate) async fn call(
        &self,
        mut deliveries: Vec<Delivery<M>>,
        timeout: Duration,
    ) -> Result<Vec<(usize, Unhandled)>, (String, FailureKind)> {
        match self {
            Handle::Batches(handler) => call(handler, deliveries, timeout).await,
            Handle::Each(handler) => {
                if let Some(delivery) = deliveries.pop() {
                    call(handler, delivery, timeout).await?;
                }
                Ok(Vec::new())
            }
        }
    }
}

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
pub(crate) async fn call<D, A>(
    handler: &Handler<D, A>,
    delivery: D,
    timeout: Duration,
) -> Result<A, (String, FailureKind)> {
    // It is called where its panics are caught.
    let handling = async move { handler(delivery).await };
    let (mut why, how) = match unwind::within(timeout, handling).await {
        Ok(handled) => return handled.map_err(failure_of),
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

/// Returns the reason of a failure, and its way.
pub(crate) fn failure_of(Unhandled { mut why, then }: Unhandled) -> (String, FailureKind) {
    cut(&mut why);
    let how = match then {
        OnError::GiveUp => FailureKind::GaveUp,
        OnError::Later(after) => FailureKind::Later(after),
        OnError::Attempt => FailureKind::Failed,
    };
    (why, how)
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
    fn span_of_batch(&self, messages: usize) -> tracing::Span {
        tracing::debug_span!(
            "hapax_consumer_handle_batch",
            consumer = self.consumer,
            otel.kind = "consumer",
            messaging.operation.type = "process",
            messaging.batch.message_count = messages,
        )
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
pub(crate) fn handler<M, H, F, E>(handle: H, shown: Arc<Shown<M>>, on_error: Option<OnErrorBy>) -> Handler<Delivery<M>>
where
    M: Send + Sync + 'static,
    H: Fn(Delivery<M>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    Arc::new(move |delivery| {
        #[cfg(feature = "tracing")]
        let handling = in_span(shown.span(&delivery), || handle(delivery));
        #[cfg(not(feature = "tracing"))]
        let handling = {
            let _ = &shown;
            handle(delivery)
        };
        let on_error = on_error.clone();
        Box::pin(async move { handling.await.map_err(|error| Unhandled::of(&*error.into(), on_error.as_ref())) })
    })
}

/// Returns a handler of batches as one of this crate's.
pub(crate) fn batch_handler<M, H, F, A, E>(handle: H, shown: Arc<Shown<M>>, on_error: Option<OnErrorBy>) -> Handle<M>
where
    M: Send + Sync + 'static,
    H: Fn(Vec<Delivery<M>>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<A, E>> + Send + 'static,
    A: Into<Answers>,
    E: Into<BoxError>,
{
    Handle::Batches(Arc::new(move |batch: Vec<Delivery<M>>| {
        let messages = batch.len();
        #[cfg(feature = "tracing")]
        let handling = in_span(shown.span_of_batch(messages), || handle(batch));
        #[cfg(not(feature = "tracing"))]
        let handling = {
            let _ = &shown;
            handle(batch)
        };
        let on_error = on_error.clone();
        Box::pin(async move {
            let on_error = on_error.as_ref();
            match handling.await {
                Ok(answers) => failures(answers.into(), messages, on_error),
                Err(error) => Err(Unhandled::of(&*error.into(), on_error)),
            }
        })
    }))
}

/// Returns the errors of single messages, with their places in a batch of this many.
fn failures(answers: Answers, messages: usize, by: Option<&OnErrorBy>) -> Result<Vec<(usize, Unhandled)>, Unhandled> {
    let each = answers.each(messages).map_err(|why| Unhandled { why, then: OnError::Attempt })?;
    let errors = each.into_iter().enumerate().filter_map(|(at, answer)| Some((at, answer.err()?)));
    Ok(errors.map(|(at, error)| (at, Unhandled::of(&*error, by))).collect())
}

/// Calls a handler in its span.
#[cfg(feature = "tracing")]
fn in_span<F: Future>(span: tracing::Span, handle: impl FnOnce() -> F) -> tracing::instrument::Instrumented<F> {
    tracing::Instrument::instrument(span.in_scope(handle), span)
}
