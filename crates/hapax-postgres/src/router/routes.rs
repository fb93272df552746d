//! Finds where a message goes, whatever handlers are.

use super::RouterStats;
use crate::Message;
use crate::errors::misconfigured;
use crate::message::validate_text;
use crate::telemetry::meters;
use hapax_message::{Described as _, GiveUp};
use hapax_store::StoreError;
use hapax_store::sync::{Ordering, StdAtomicU64};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The part of an unknown kind that an error says.
const SHOWN_CHARS: usize = 128;

/// The ways of messages, as metrics name them.
const ROUTED: &str = "routed";
const OTHERWISE: &str = "otherwise";
const PASSED_ON: &str = "passed_on";
const UNKNOWN: &str = "unknown";
#[cfg(feature = "json")]
const UNREADABLE: &str = "unreadable";

/// The destination of messages of other kinds.
pub(super) enum Unknown<R> {
    Aside,
    PassedOn,
    Otherwise(R),
}

/// The destination of a message.
pub(super) enum Destination<'r, R> {
    Handler(&'r R),
    /// It is done.
    Done,
    Aside(GiveUp),
}

/// The numbers behind [`RouterStats`].
#[derive(Debug, Default)]
pub(super) struct Counts {
    routed: StdAtomicU64,
    otherwise: StdAtomicU64,
    passed_on: StdAtomicU64,
    unknown: StdAtomicU64,
    unreadable: StdAtomicU64,
}

impl Counts {
    /// Counts a message that has gone this way.
    fn count(&self, message: &Message, way: &'static str) {
        let counter = match way {
            ROUTED => &self.routed,
            OTHERWISE => &self.otherwise,
            PASSED_ON => &self.passed_on,
            UNKNOWN => &self.unknown,
            _ => &self.unreadable,
        };
        // Relaxed: nothing else is published with it.
        counter.fetch_add(1, Ordering::Relaxed);
        meters::routed(&message.name, way);
    }
}

pub(super) struct Routes<R> {
    by_kind: HashMap<String, R>,
    unknown: Unknown<R>,
    counts: Arc<Counts>,
}

impl<R> Routes<R> {
    pub(super) fn new() -> Self {
        Routes { by_kind: HashMap::new(), unknown: Unknown::Aside, counts: Arc::default() }
    }

    pub(super) fn add(&mut self, kind: &str, handler: R) -> Result<(), StoreError> {
        validate_text("a kind", Some(kind))?;
        match self.by_kind.insert(kind.to_owned(), handler) {
            None => Ok(()),
            Some(_) => Err(misconfigured(format!("expected one handler for the kind {kind:?}, got two"))),
        }
    }

    pub(super) fn set_unknown(&mut self, unknown: Unknown<R>) {
        self.unknown = unknown;
    }

    pub(super) fn find(&self, message: &Message) -> Destination<'_, R> {
        let kind = message.kind();
        if let Some(handler) = kind.and_then(|kind| self.by_kind.get(kind)) {
            self.counts.count(message, ROUTED);
            return Destination::Handler(handler);
        }
        match &self.unknown {
            Unknown::Otherwise(handler) => {
                self.counts.count(message, OTHERWISE);
                Destination::Handler(handler)
            }
            Unknown::PassedOn => {
                self.counts.count(message, PASSED_ON);
                Destination::Done
            }
            Unknown::Aside => {
                self.counts.count(message, UNKNOWN);
                let got = kind.map_or_else(|| "none".to_owned(), |kind| format!("{:?}", shown(kind)));
                Destination::Aside(GiveUp::because(format!("expected a kind that has a handler, got {got}")))
            }
        }
    }

    #[cfg(feature = "json")]
    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    pub(super) fn stats(&self) -> RouterStats {
        let of = |counter: &StdAtomicU64| counter.load(Ordering::Relaxed);
        RouterStats {
            routed: of(&self.counts.routed),
            otherwise: of(&self.counts.otherwise),
            passed_on: of(&self.counts.passed_on),
            unknown: of(&self.counts.unknown),
            unreadable: of(&self.counts.unreadable),
        }
    }
}

/// Shows the kinds that have handlers.
impl<R> fmt::Debug for Routes<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<&String> = self.by_kind.keys().collect();
        kinds.sort();
        let unknown = match self.unknown {
            Unknown::Aside => "put aside",
            Unknown::PassedOn => "passed on",
            Unknown::Otherwise(_) => "handled otherwise",
        };
        f.debug_struct("Routes").field("kinds", &kinds).field("unknown", &unknown).finish()
    }
}

fn shown(kind: &str) -> &str {
    kind.char_indices().nth(SHOWN_CHARS).map_or(kind, |(end, _)| &kind[..end])
}

/// Parses a payload of JSON. Another attempt cannot help one that is no such thing.
#[cfg(feature = "json")]
pub(super) fn parsed<P: serde::de::DeserializeOwned>(message: &Message, counts: &Counts) -> Result<P, GiveUp> {
    serde_json::from_slice(&message.payload).map_err(|error| {
        counts.count(message, UNREADABLE);
        let kind = shown(message.kind().unwrap_or_default());
        GiveUp::because(format!("expected a payload of the kind {kind:?}, got {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::plain;

    fn message(kind: Option<&str>, payload: &str) -> Message {
        Message { kind: kind.map(str::to_owned), payload: payload.into(), ..plain() }
    }

    fn found(routes: &Routes<u8>, kind: Option<&str>) -> Result<Option<u8>, String> {
        match routes.find(&message(kind, "")) {
            Destination::Handler(handler) => Ok(Some(*handler)),
            Destination::Done => Ok(None),
            Destination::Aside(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_kind_has_its_handler_and_others_are_what_was_chosen() {
        let mut routes = Routes::new();
        routes.add("a", 1_u8).unwrap();
        routes.add("b", 2).unwrap();
        assert_eq!((found(&routes, Some("a")), found(&routes, Some("b"))), (Ok(Some(1)), Ok(Some(2))));
        for (kind, said) in [(None, "none"), (Some("A"), "\"A\""), (Some("a "), "\"a \""), (Some(""), "\"\"")] {
            let error = found(&routes, kind).unwrap_err();
            assert_eq!(error, format!("expected a kind that has a handler, got {said}"));
        }
        let long = "€".repeat(2_000);
        assert!(found(&routes, Some(&long)).unwrap_err().len() < 4 * SHOWN_CHARS);
        routes.set_unknown(Unknown::PassedOn);
        assert_eq!((found(&routes, Some("a")), found(&routes, None)), (Ok(Some(1)), Ok(None)));
        routes.set_unknown(Unknown::Otherwise(9));
        assert_eq!((found(&routes, Some("a")), found(&routes, Some("c"))), (Ok(Some(1)), Ok(Some(9))));
        let stats = routes.stats();
        assert_eq!((stats.routed, stats.otherwise, stats.passed_on, stats.unknown), (4, 1, 1, 5));
        for (kind, what) in [("a", "two"), ("", "a kind"), ("\0", "a kind")] {
            assert!(routes.add(kind, 3).unwrap_err().to_string().contains(what));
        }
    }

    #[cfg(feature = "json")]
    #[test]
    fn a_payload_that_is_not_what_was_expected_is_given_up_and_says_where() {
        let counts = Counts::default();
        assert_eq!(parsed::<Vec<u8>>(&message(Some("a"), "[1, 2]"), &counts).unwrap(), [1, 2]);
        let error = parsed::<Vec<u8>>(&message(Some("a"), "[1, 300]"), &counts).unwrap_err();
        assert!(error.to_string().contains("\"a\"") && error.to_string().contains("line 1 column"), "{error}");
        assert_eq!(counts.unreadable.load(Ordering::Relaxed), 1);
    }
}
