//! Handlers by the kind of message.

use super::delivery::Delivery;
use super::failure::BoxError;
use crate::telemetry::kinds::{self, KindOf};
use hapax_message::Described;
use hapax_message::routes::{Destination, OnUnknown, RouterError, RouterStats, Routes};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// A handler's future, whatever its kind.
pub type Routed = Pin<Box<dyn Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send>>;

type Route<M> = Arc<dyn Fn(Delivery<M>) -> Routed + Send + Sync>;

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
/// let router = Router::new()
///     .on_json("order.placed", placed)?
///     .on("order.cancelled", |delivery: Delivery<Event>| async move {
///         println!("{:?} is cancelled", delivery.subject());
///         Ok::<(), std::io::Error>(())
///     })?
///     .on_unknown(OnUnknown::Pass);
/// # fn run(_: impl Fn(Delivery<Event>) -> hapax_stream::Routed + Send + Sync + 'static) {}
/// // `consumer.run(&source, router.handler(), shutdown)`
/// # run(router.handler());
/// # Ok::<(), hapax_stream::RouterError>(())
/// ```
///
/// A message that has no kind is of an unknown one. A payload that cannot be parsed is put aside at
/// once, with the reason, since no other attempt would parse it; so is one whose handler returns an
/// error with [`GiveUp`](crate::GiveUp) in its chain. Any other error is tried again, as consumers
/// do.
///
/// The reason is the parser's error, which may have a part of the payload in it: the first 1,024
/// bytes of it are kept.
///
/// # Cost
///
/// A look-up in a hash map and an allocation for each message, and its kind.
pub struct Router<M> {
    routes: Arc<Routes<Route<M>>>,
    kind_of: KindOf<M>,
}

impl<M> Clone for Router<M> {
    fn clone(&self) -> Self {
        Router { routes: Arc::clone(&self.routes), kind_of: Arc::clone(&self.kind_of) }
    }
}

impl<M: Described + Send + Sync + 'static> Default for Router<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Described + Send + Sync + 'static> Router<M> {
    /// Creates a router without handlers: it puts every message aside.
    pub fn new() -> Self {
        Router { routes: Arc::default(), kind_of: kinds::kind_of_described() }
    }

    /// Adds the handler of a kind, as messages have it, letter for letter.
    ///
    /// # Errors
    ///
    /// [`RouterError`]: the kind has a handler already, or is empty.
    pub fn on<F, E>(
        mut self,
        kind: impl Into<String>,
        handle: impl Fn(Delivery<M>) -> F + Send + Sync + 'static,
    ) -> Result<Self, RouterError>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.routes_mut().on(kind, route(handle))?;
        Ok(self)
    }

    /// Adds the handler of a kind, whose payload is parsed as JSON.
    ///
    /// # Errors
    ///
    /// Those of [`on`](Self::on).
    #[cfg(feature = "json")]
    pub fn on_json<T, F, E>(
        self,
        kind: impl Into<String>,
        handle: impl Fn(T, Delivery<M>) -> F + Send + Sync + 'static,
    ) -> Result<Self, RouterError>
    where
        T: serde::de::DeserializeOwned,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.on_parsed(kind, |delivery| serde_json::from_slice(delivery.payload()), handle)
    }

    /// Adds the handler of a kind, whose payload is parsed first: as Protocol Buffers or Avro, for
    /// example. If that fails, the message is put aside at once.
    ///
    /// # Errors
    ///
    /// Those of [`on`](Self::on).
    pub fn on_parsed<T, P, F, E>(
        self,
        kind: impl Into<String>,
        parse: impl Fn(&Delivery<M>) -> Result<T, P> + Send + Sync + 'static,
        handle: impl Fn(T, Delivery<M>) -> F + Send + Sync + 'static,
    ) -> Result<Self, RouterError>
    where
        P: fmt::Display,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (kind, counts) = (kind.into(), self.routes.counts());
        let of = kind.clone();
        self.on(kind, move |delivery| {
            // What is parsed need not be `Send`: the handler's future begins here.
            let parsed = parse(&delivery).map(|parsed| handle(parsed, delivery));
            let parsed = parsed.map_err(|error| counts.malformed(Some(&of), error));
            async move { parsed?.await.map_err(Into::into) as Result<(), BoxError> }
        })
    }

    /// Sets the treatment of messages of other kinds. Default: they are put aside. This replaces a
    /// [`fallback`](Self::fallback).
    #[must_use]
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.routes_mut().on_unknown(on_unknown);
        self
    }

    /// Sets the handler of messages of other kinds. This replaces [`on_unknown`](Self::on_unknown).
    #[must_use]
    pub fn fallback<F, E>(mut self, handle: impl Fn(Delivery<M>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.routes_mut().fallback(route(handle));
        self
    }

    /// Sets where the kind of a message is: for envelopes in the payload, such as those of Amazon
    /// EventBridge. Default: [`Described::kind`].
    #[must_use]
    pub fn kind_by(mut self, kind_of: impl Fn(&M) -> Option<String> + Send + Sync + 'static) -> Self {
        self.kind_of = kinds::kind_by(kind_of);
        self
    }

    /// Handles a message by its kind.
    pub fn handle(&self, delivery: Delivery<M>) -> Routed {
        let kind = (self.kind_of)(delivery.message());
        let (_, destination) = self.routes.find(kind.as_deref());
        match destination {
            Destination::Handler(route) => route(delivery),
            Destination::Done => Box::pin(std::future::ready(Ok(()))),
            Destination::DeadLetter(why) => Box::pin(std::future::ready(Err(why.into()))),
        }
    }

    /// Returns the handler for [`Consumer::run`](crate::Consumer::run).
    pub fn handler(&self) -> impl Fn(Delivery<M>) -> Routed + Send + Sync + 'static + use<M> {
        let router = self.clone();
        move |delivery| router.handle(delivery)
    }

    /// Returns the counts so far, of this router and its clones.
    pub fn stats(&self) -> RouterStats {
        self.routes.stats()
    }

    /// Returns its routes, to change them. A clone's are copied, and count with these.
    fn routes_mut(&mut self) -> &mut Routes<Route<M>> {
        Arc::make_mut(&mut self.routes)
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
        f.debug_struct("Router").field("routes", &self.routes).finish_non_exhaustive()
    }
}
