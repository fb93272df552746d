//! The kinds of messages that metrics tell apart, of which there is a bounded number.

use super::meters::{ConsumerMeters, KindMeters};
use hapax_message::{Described, TraceContext};
use hapax_store::sync::lock;
use hapax_store::{StoreError, option};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// The largest number of kinds.
const MAX: usize = 1_000;
/// The largest length of a kind, in bytes.
const MAX_LENGTH: usize = 64;
/// The largest number of characters of a kind in a span.
#[cfg(feature = "tracing")]
const MAX_SHOWN: usize = 256;

/// The kinds of messages that metrics tell apart, by a label `kind`. All others are `*`.
///
/// ```
/// use hapax_stream::Kinds;
///
/// let known = Kinds::of(["order.placed", "order.paid"]);
/// let some = Kinds::first(20);
/// ```
///
/// Whoever sends messages chooses their kinds, so there may be any number of them, of any length. A
/// label with any number of values is a metric of any size: here there are these, and no more.
#[derive(Clone, Debug)]
pub struct Kinds {
    which: Which,
}

#[derive(Clone, Debug)]
enum Which {
    Of(BTreeSet<String>),
    First(usize),
}

impl Kinds {
    /// Returns these kinds: up to 1,000, of 1 to 64 bytes each.
    pub fn of(kinds: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Kinds { which: Which::Of(kinds.into_iter().map(Into::into).collect()) }
    }

    /// Returns the first kinds that come: up to this many, at most 1,000. Those that are longer
    /// than 64 bytes, or have control characters, are not among them. Somebody who sends as many
    /// invented kinds first has all others counted as `*`: where anybody may send, name the kinds.
    pub fn first(kinds: usize) -> Self {
        Kinds { which: Which::First(kinds) }
    }

    fn validate(&self) -> Result<(), StoreError> {
        let check =
            |valid, got: &dyn std::fmt::Debug, expected: &str| option::check("hapax", valid, "kinds", got, expected);
        match &self.which {
            Which::Of(kinds) => {
                check((1..=MAX).contains(&kinds.len()), &kinds.len(), "1 to 1,000 kinds")?;
                let wrong = kinds.iter().find(|kind| !is_sane(kind));
                check(wrong.is_none(), &wrong, "kinds of 1 to 64 bytes, without control characters")
            }
            Which::First(kinds) => check((1..=MAX).contains(kinds), kinds, "1 to 1,000 kinds"),
        }
    }

    /// Returns true if this kind is told apart from others, where this many are already.
    fn admits(&self, kind: &str, known: usize) -> bool {
        match &self.which {
            Which::Of(kinds) => kinds.contains(kind),
            Which::First(most) => known < *most && is_sane(kind),
        }
    }
}

fn is_sane(kind: &str) -> bool {
    (1..=MAX_LENGTH).contains(&kind.len()) && kind != "*" && !kind.contains(char::is_control)
}

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
    kinds: Kinds,
    kind_of: KindOf<M>,
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only spans show it"))]
    trace_of: TraceOf<M>,
    known: Mutex<BTreeMap<String, Arc<KindMeters>>>,
}

impl<M> Description<M> {
    pub(crate) fn of_described(kinds: Kinds) -> Self
    where
        M: Described,
    {
        Self::new(kinds, kind_of_described(), TraceContext::of)
    }

    pub(crate) fn by(kinds: Kinds, kind_of: impl Fn(&M) -> Option<String> + Send + Sync + 'static) -> Self
    where
        M: Described,
    {
        Self::new(kinds, kind_by(kind_of), TraceContext::of)
    }

    fn new(kinds: Kinds, kind_of: KindOf<M>, trace_of: TraceOf<M>) -> Self {
        Description { kinds, kind_of, trace_of, known: Mutex::default() }
    }

    pub(crate) fn validate(&self) -> Result<(), StoreError> {
        self.kinds.validate()
    }

    /// Returns the metrics of a message's kind; none if its kind is not told apart.
    pub(crate) fn meters(&self, message: &M, meters: &ConsumerMeters) -> Option<Arc<KindMeters>> {
        let kind = (self.kind_of)(message)?;
        let mut known = lock(&self.known);
        if let Some(of_kind) = known.get(&*kind) {
            return Some(Arc::clone(of_kind));
        }
        if !self.kinds.admits(&kind, known.len()) {
            return None;
        }
        let of_kind = Arc::new(meters.of_kind(&kind));
        known.insert(kind.into_owned(), Arc::clone(&of_kind));
        Some(of_kind)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn known<M>(description: &Description<M>) -> Vec<String> {
        lock(&description.known).keys().cloned().collect()
    }

    fn description(kinds: Kinds) -> Description<String> {
        Description::new(kinds, Arc::new(|message: &String| Some(Cow::Borrowed(message.as_str()))), |_| None)
    }

    #[test]
    fn hostile_kinds_are_bounded() {
        let (meters, first) = (ConsumerMeters::new(""), description(Kinds::first(3)));
        for kind in ["a", "*", "", "a\nb", &"x".repeat(65), "b", "a"] {
            first.meters(&kind.to_owned(), &meters);
        }
        (0..10_000).for_each(|n| _ = first.meters(&format!("kind-{n}"), &meters));
        assert_eq!(known(&first), ["a", "b", "kind-0"]);
        assert!(first.meters(&"a".to_owned(), &meters).is_some() && first.meters(&"c".to_owned(), &meters).is_none());

        let named = description(Kinds::of(["a", "b"]));
        (0..10_000).for_each(|n| _ = named.meters(&format!("kind-{n}"), &meters));
        assert!(named.meters(&"b".to_owned(), &meters).is_some());
        assert_eq!(known(&named), ["b"]);
    }

    #[test]
    fn wrong_kinds_are_refused() {
        for right in [Kinds::first(1), Kinds::first(1_000), Kinds::of(["a"])] {
            assert!(description(right).validate().is_ok());
        }
        let many = (0..1_001).map(|n| n.to_string());
        for wrong in [Kinds::first(0), Kinds::first(1_001), Kinds::of([""; 1]), Kinds::of(["*"]), Kinds::of(many)] {
            let error = description(wrong).validate().unwrap_err();
            assert!(error.to_string().contains("kinds"), "{error}");
        }
    }
}
