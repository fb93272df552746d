//! The kinds of messages that metrics tell apart, and spans show.

use super::meters::{ConsumerMeters, KindMeters};
use hapax_message::kinds::Kinds;
use hapax_message::{Described, TraceContext};
use std::borrow::Cow;
use std::sync::Arc;

/// The largest number of characters of a kind in a span.
#[cfg(feature = "tracing")]
const MAX_SHOWN: usize = 256;

/// A function that returns the kind of a message.
pub(crate) type KindOf<M> = Arc<dyn for<'m> Fn(&'m M) -> Option<Cow<'m, str>> + Send + Sync>;
type TraceOf<M> = fn(&M) -> Option<TraceContext>;

/// Returns the function that asks a message itself.
pub(crate) fn kind_of_described<M: Described>() -> KindOf<M> {
    Arc::new(|message: &M| message.kind().map(Cow::Borrowed))
}

/// Returns a caller's function as one of this crate's.
pub(crate) fn kind_by<M>(kind_of: impl Fn(&M) -> Option<String> + Send + Sync + 'static) -> KindOf<M> {
    Arc::new(move |message: &M| kind_of(message).map(Cow::Owned))
}

/// The description of a message in metrics and spans.
pub(crate) struct Description<M> {
    kind_of: KindOf<M>,
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only spans show it"))]
    trace_of: TraceOf<M>,
    known: Kinds<KindMeters>,
}

impl<M: Described> Description<M> {
    pub(crate) fn by(kind_of: KindOf<M>) -> Self {
        Description { kind_of, trace_of: TraceContext::of, known: Kinds::default() }
    }
}

impl<M> Description<M> {
    /// Returns the metrics of a message's kind; none if it has no kind.
    pub(crate) fn meters(&self, message: &M, meters: &ConsumerMeters) -> Option<Arc<KindMeters>> {
        let kind = (self.kind_of)(message)?;
        Some(self.known.of(&kind, |label| meters.of_kind(label)))
    }

    /// Records kind and trace of a message in a span.
    #[cfg(feature = "tracing")]
    pub(crate) fn record(&self, message: &M, span: &tracing::Span) {
        if let Some(kind) = (self.kind_of)(message) {
            let shown: String = kind.chars().take(MAX_SHOWN).collect();
            span.record("kind", shown.as_str());
        }
        if let Some(trace) = (self.trace_of)(message) {
            span.record("traceparent", trace.traceparent().as_str());
        }
    }
}
