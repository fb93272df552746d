//! Handlers by the kind of a message: finds the one that gets it, whatever handlers are.

use crate::GiveUp;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The largest number of characters of a kind that an error shows.
const SHOWN_MAX: usize = 64;

/// The treatment of a message of a kind for which there is no handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnknown {
    /// It becomes a dead letter at once, and is not tried again.
    #[default]
    DeadLetter,
    /// It is done without a handler. For streams of which a consumer wants a part.
    Pass,
}

hapax::counted! {
    /// Counts of the messages that a router has given to handlers, or not, in all attempts.
    RouterStats,
    pub Way in Ways {
        /// Given to the handler of their kind.
        routed: Routed,
        /// Given to the handler of all other kinds.
        fallback: Fallback,
        /// Done without a handler.
        passed: Passed,
        /// Put aside, since there is no handler for their kind, or they have none.
        unknown: Unknown,
        /// Put aside, since a payload was not what the handler of its kind takes.
        malformed: Malformed,
    }
}

/// The error of a router that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouterError {
    /// A kind has two handlers.
    Twice {
        /// The kind.
        kind: String,
    },
    /// A handler is for a kind without a name, which no message has.
    EmptyKind,
}

impl fmt::Display for RouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouterError::Twice { kind } => write!(f, "kind {kind:?} has two handlers, expected one"),
            RouterError::EmptyKind => f.write_str("a handler is for the empty kind, which no message has"),
        }
    }
}

impl std::error::Error for RouterError {}

/// The counts of a router, which its handlers share.
#[derive(Clone, Debug, Default)]
pub struct RouterCounts(Arc<Ways>);

impl RouterCounts {
    /// Counts a message whose payload was not what the handler of its kind takes, and returns the
    /// reason for which it is given up: no other attempt would parse it.
    pub fn malformed(&self, kind: Option<&str>, error: impl fmt::Display) -> GiveUp {
        self.0.add(Way::Malformed, 1);
        GiveUp::because(format!("its payload is not that of kind {}: {error}", shown(kind)))
    }
}

/// The place to which a message goes.
#[derive(Debug)]
pub enum Destination<'r, H> {
    /// A handler.
    Handler(&'r H),
    /// It is done.
    Done,
    /// It is put aside, for this reason.
    DeadLetter(GiveUp),
}

/// Handlers by kind, for the routers of consumers.
#[derive(Clone)]
pub struct Routes<H> {
    by_kind: HashMap<String, H>,
    on_unknown: OnUnknown,
    fallback: Option<H>,
    counts: RouterCounts,
}

impl<H> Default for Routes<H> {
    fn default() -> Self {
        Routes {
            by_kind: HashMap::new(),
            on_unknown: OnUnknown::default(),
            fallback: None,
            counts: RouterCounts::default(),
        }
    }
}

impl<H> Routes<H> {
    /// Adds the handler of a kind, which is compared letter for letter.
    ///
    /// # Errors
    ///
    /// [`RouterError`]: the kind has a handler already, or is empty.
    pub fn on(&mut self, kind: impl Into<String>, handler: H) -> Result<(), RouterError> {
        let kind = kind.into();
        if kind.is_empty() {
            return Err(RouterError::EmptyKind);
        }
        if self.by_kind.contains_key(&kind) {
            return Err(RouterError::Twice { kind });
        }
        self.by_kind.insert(kind, handler);
        Ok(())
    }

    /// Sets the treatment of other messages. It replaces a [`fallback`](Self::fallback).
    pub fn on_unknown(&mut self, on_unknown: OnUnknown) {
        (self.on_unknown, self.fallback) = (on_unknown, None);
    }

    /// Sets the handler of other messages, also of those without a kind.
    pub fn fallback(&mut self, handler: H) {
        self.fallback = Some(handler);
    }

    /// Finds and counts where a message of this kind goes.
    pub fn find(&self, kind: Option<&str>) -> (Way, Destination<'_, H>) {
        let (way, destination) = match (kind.and_then(|kind| self.by_kind.get(kind)), &self.fallback) {
            (Some(handler), _) => (Way::Routed, Destination::Handler(handler)),
            (None, Some(handler)) => (Way::Fallback, Destination::Handler(handler)),
            (None, None) if self.on_unknown == OnUnknown::Pass => (Way::Passed, Destination::Done),
            (None, None) => {
                let why = format!("expected a kind that has a handler, got {}", shown(kind));
                (Way::Unknown, Destination::DeadLetter(GiveUp::because(why)))
            }
        };
        self.counts.0.add(way, 1);
        (way, destination)
    }

    /// Returns the counts, for handlers that parse payloads.
    pub fn counts(&self) -> RouterCounts {
        self.counts.clone()
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> RouterStats {
        self.counts.0.stats()
    }
}

/// Shows the kinds that have handlers.
impl<H> fmt::Debug for Routes<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<&String> = self.by_kind.keys().collect();
        kinds.sort_unstable();
        f.debug_struct("Routes")
            .field("kinds", &kinds)
            .field("on_unknown", &self.on_unknown)
            .field("has_fallback", &self.fallback.is_some())
            .finish()
    }
}

fn shown(kind: Option<&str>) -> String {
    kind.map_or_else(|| "none".to_owned(), |kind| format!("{:?}", kind.chars().take(SHOWN_MAX).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(routes: &Routes<u8>, kind: Option<&str>) -> Result<Option<u8>, String> {
        match routes.find(kind).1 {
            Destination::Handler(handler) => Ok(Some(*handler)),
            Destination::Done => Ok(None),
            Destination::DeadLetter(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_kind_has_its_handler_and_others_are_what_was_chosen() {
        let mut routes = Routes::default();
        routes.on("a", 1_u8).unwrap();
        routes.on("b", 2).unwrap();
        assert_eq!((found(&routes, Some("a")), found(&routes, Some("b"))), (Ok(Some(1)), Ok(Some(2))));
        for (kind, said) in [(None, "none"), (Some("A"), "\"A\""), (Some("a "), "\"a \""), (Some(""), "\"\"")] {
            let error = found(&routes, kind).unwrap_err();
            assert_eq!(error, format!("expected a kind that has a handler, got {said}"));
        }
        let long = "€".repeat(2_000);
        assert!(found(&routes, Some(&long)).unwrap_err().len() < 4 * SHOWN_MAX);
        routes.on_unknown(OnUnknown::Pass);
        assert_eq!((found(&routes, Some("a")), found(&routes, None)), (Ok(Some(1)), Ok(None)));
        routes.fallback(9);
        assert_eq!((found(&routes, Some("a")), found(&routes, Some("c"))), (Ok(Some(1)), Ok(Some(9))));
        let shown = format!("{routes:?}");
        assert!(shown.contains(r#"["a", "b"]"#) && shown.contains("has_fallback: true"), "{shown}");
        routes.on_unknown(OnUnknown::DeadLetter);
        assert!(found(&routes, Some("c")).is_err(), "it replaces the fallback");
        let error = routes.counts().malformed(Some("a"), "line 1");
        assert_eq!(error.to_string(), "its payload is not that of kind \"a\": line 1");
        let expected = RouterStats { routed: 4, fallback: 1, passed: 1, unknown: 6, malformed: 1 };
        assert_eq!(routes.stats(), expected);
    }

    #[test]
    fn a_kind_has_one_handler() {
        let mut routes = Routes::default();
        routes.on("a", ()).unwrap();
        assert_eq!(routes.on("a", ()), Err(RouterError::Twice { kind: "a".to_owned() }));
        assert_eq!(routes.on("", ()), Err(RouterError::EmptyKind));
    }
}
