//! Handlers by the kind of message.

use super::delivery::Delivery;
use super::failure::BoxError;
use crate::telemetry::kinds::{self, KindOf};
use hapax_message::{Described, GiveUp};
use hapax_store::sync::{Ordering, StdAtomicU64};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// The largest number of characters of a kind that an error shows.
const MAX_SHOWN: usize = 64;

/// A handler's future, whatever its kind.
pub type Routed = Pin<Box<dyn Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send>>;

type Route<M> = Arc<dyn Fn(Delivery<M>) -> Routed + Send + Sync>;

/// The treatment of a message of a kind for which there is no handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum OnUnknown {
    /// It is [put aside](crate::Source::dead_letter) at once, and not tried again.
    #[default]
    DeadLetter,
    /// It is done: completed and acknowledged, and counted as [unknown](RouterStats::unknown). For
    /// streams of which a consumer wants a part.
    Pass,
}

/// Handlers by the [kind](Described::kind) of a message, for a [`Consumer`](crate::Consumer) or a
/// [`LogConsumer`](crate::LogConsumer).
///
#[cfg_attr(feature = "json", doc = "```")]
#[cfg_attr(not(feature = "json"), doc = "```ignore")]
/// use hapax_message::{Described, GiveUp};
/// use hapax_message::cloudevents::{Event, EventError};
/// use hapax_stream::{Delivery, OnUnknown, Router};
/// use std::error::Error;
///
/// #[derive(serde::Deserialize)]
/// struct Placed {
///     total: u32,
/// }
///
/// type Done = Result<(), Box<dyn Error + Send + Sync>>;
///
/// async fn placed(order: Placed, delivery: Delivery<Event>) -> Done {
///     println!("{:?} is placed for {}", delivery.subject(), order.total);
///     Ok(())
/// }
///
/// let router = Router::builder()
///     .on_json("order.placed", placed)
///     .on("order.cancelled", |delivery: Delivery<Event>| async move {
///         println!("{:?} is cancelled", delivery.subject());
///         Ok::<(), std::io::Error>(())
///     })
///     .on_unknown(OnUnknown::Pass)
///     .build()?;
/// # fn run(_: impl Fn(Delivery<Event>) -> hapax_stream::Routed + Send + Sync + 'static) {}
/// // `consumer.run(&source, router.handler(), shutdown)`
/// # run(router.handler());
/// # Ok::<(), hapax_stream::RouterError>(())
/// ```
///
/// A message that has no kind is of an unknown one. A payload that cannot be parsed is put aside at
/// once, with the reason, since no other attempt would parse it; so is one whose handler returns an
/// error with [`GiveUp`] in its chain. Any other error is tried again, as consumers do.
///
/// The reason is the parser's error, which may have a part of the payload in it: the first 1,024
/// bytes of it are kept.
///
/// # Cost
///
/// A look-up in a hash map and an allocation for each message, and its kind.
pub struct Router<M> {
    routes: Arc<Routes<M>>,
}

impl<M> Clone for Router<M> {
    fn clone(&self) -> Self {
        Router { routes: Arc::clone(&self.routes) }
    }
}

struct Routes<M> {
    by_kind: HashMap<String, Route<M>>,
    otherwise: Otherwise<M>,
    kind_of: KindOf<M>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    unknown: StdAtomicU64,
    malformed: StdAtomicU64,
}

enum Otherwise<M> {
    By(OnUnknown),
    Handler(Route<M>),
}

/// The counts of a [`Router`] so far, of all its handlers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouterStats {
    /// Attempts at messages of a kind for which there is no handler, whatever became of them.
    pub unknown: u64,
    /// Attempts at messages whose payload could not be parsed.
    pub malformed: u64,
}

/// A builder of a [`Router`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct RouterBuilder<M> {
    routes: Routes<M>,
    wrong: Option<RouterError>,
}

impl<M: Described + Send + Sync + 'static> Router<M> {
    /// Starts configuring a router: one without handlers.
    pub fn builder() -> RouterBuilder<M> {
        let routes = Routes {
            by_kind: HashMap::new(),
            otherwise: Otherwise::By(OnUnknown::default()),
            kind_of: kinds::kind_of_described(),
            counts: Arc::default(),
        };
        RouterBuilder { routes, wrong: None }
    }

    /// Handles a message by its kind.
    pub fn handle(&self, delivery: Delivery<M>) -> Routed {
        let routes = &self.routes;
        let kind = (routes.kind_of)(delivery.message());
        if let Some(route) = kind.as_ref().and_then(|kind| routes.by_kind.get(&**kind)) {
            return route(delivery);
        }
        routes.counts.unknown.fetch_add(1, Ordering::Relaxed);
        match &routes.otherwise {
            Otherwise::Handler(route) => route(delivery),
            Otherwise::By(OnUnknown::Pass) => Box::pin(std::future::ready(Ok(()))),
            Otherwise::By(OnUnknown::DeadLetter) => {
                let why = match kind {
                    Some(kind) => format!("no handler for kind {:?}", kind.chars().take(MAX_SHOWN).collect::<String>()),
                    None => "it has no kind".to_owned(),
                };
                Box::pin(std::future::ready(Err(GiveUp::because(why).into())))
            }
        }
    }

    /// Returns the handler for [`Consumer::run`](crate::Consumer::run).
    pub fn handler(&self) -> impl Fn(Delivery<M>) -> Routed + Send + Sync + 'static + use<M> {
        let router = self.clone();
        move |delivery| router.handle(delivery)
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> RouterStats {
        // Relaxed: counters order nothing.
        let of = |counter: &StdAtomicU64| counter.load(Ordering::Relaxed);
        RouterStats { unknown: of(&self.routes.counts.unknown), malformed: of(&self.routes.counts.malformed) }
    }
}

impl<M: Described + Send + Sync + 'static> RouterBuilder<M> {
    /// Sets the handler of a kind, as messages have it, letter for letter.
    pub fn on<F, E>(
        mut self,
        kind: impl Into<String>,
        handle: impl Fn(Delivery<M>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let kind = kind.into();
        if kind.is_empty() {
            self.wrong.get_or_insert(RouterError::EmptyKind);
        }
        if self.routes.by_kind.contains_key(&kind) {
            self.wrong.get_or_insert_with(|| RouterError::Twice { kind: kind.clone() });
        }
        self.routes.by_kind.insert(kind, route(handle));
        self
    }

    /// Sets the handler of a kind, whose payload is parsed as JSON.
    #[cfg(feature = "json")]
    pub fn on_json<T, F, E>(
        self,
        kind: impl Into<String>,
        handle: impl Fn(T, Delivery<M>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: serde::de::DeserializeOwned,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.on_parsed(kind, |delivery| serde_json::from_slice(delivery.payload()), handle)
    }

    /// Sets the handler of a kind, whose payload is parsed first: as Protocol Buffers or Avro, for
    /// example. If that fails, the message is put aside at once.
    pub fn on_parsed<T, P, F, E>(
        self,
        kind: impl Into<String>,
        parse: impl Fn(&Delivery<M>) -> Result<T, P> + Send + Sync + 'static,
        handle: impl Fn(T, Delivery<M>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        P: fmt::Display,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (kind, counts) = (kind.into(), Arc::clone(&self.routes.counts));
        let of = kind.clone();
        self.on(kind, move |delivery| {
            // What is parsed need not be `Send`: the handler's future begins here.
            let parsed = parse(&delivery).map(|parsed| handle(parsed, delivery));
            let parsed = parsed.map_err(|error| {
                counts.malformed.fetch_add(1, Ordering::Relaxed);
                GiveUp::because(format!("its payload is not that of kind {of:?}: {error}"))
            });
            async move { parsed?.await.map_err(Into::into) as Result<(), BoxError> }
        })
    }

    /// Sets the treatment of messages of other kinds. Default: they are put aside. This replaces a
    /// [`fallback`](Self::fallback).
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.routes.otherwise = Otherwise::By(on_unknown);
        self
    }

    /// Sets the handler of messages of other kinds. This replaces [`on_unknown`](Self::on_unknown).
    pub fn fallback<F, E>(mut self, handle: impl Fn(Delivery<M>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.routes.otherwise = Otherwise::Handler(route(handle));
        self
    }

    /// Sets where the kind of a message is: for envelopes in the payload, such as those of Amazon
    /// EventBridge. Default: [`Described::kind`].
    pub fn kind_by(mut self, kind_of: impl Fn(&M) -> Option<String> + Send + Sync + 'static) -> Self {
        self.routes.kind_of = kinds::kind_by(kind_of);
        self
    }

    /// Builds the router.
    ///
    /// # Errors
    ///
    /// [`RouterError`]: a kind has two handlers, or is empty.
    pub fn build(self) -> Result<Router<M>, RouterError> {
        match self.wrong {
            Some(wrong) => Err(wrong),
            None => Ok(Router { routes: Arc::new(self.routes) }),
        }
    }
}

fn route<M, F, E>(handle: impl Fn(Delivery<M>) -> F + Send + Sync + 'static) -> Route<M>
where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    Arc::new(move |delivery| {
        let handling = handle(delivery);
        Box::pin(async move { handling.await.map_err(Into::into) })
    })
}

impl<M> fmt::Debug for Router<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<&String> = self.routes.by_kind.keys().collect();
        kinds.sort_unstable();
        f.debug_struct("Router").field("kinds", &kinds).finish_non_exhaustive()
    }
}

impl<M> fmt::Debug for RouterBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterBuilder").field("wrong", &self.wrong).finish_non_exhaustive()
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
