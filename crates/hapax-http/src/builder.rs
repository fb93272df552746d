//! The configuration of a layer.

use super::layer::IdempotencyLayer;
use super::options::{OnMissing, Options, ScopeFn};
use super::shared::Shared;
use super::stats::Counters;
use crate::limits::durations::TypicalDurations;
use crate::limits::permits::Permits;
use crate::limits::reservations::Reservations;
use crate::response::problem_details::ProblemDetails;
use bytes::Bytes;
use hapax_store::{ErrorKind, Fingerprint, Store, StoreError, TieredDedup};
use http::request::Parts;
use http::{HeaderName, Method, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// The state of a builder without a scope: the layer cannot be built yet.
#[derive(Debug)]
pub enum Unscoped {}

/// The state of a builder with a decision about scopes.
#[derive(Clone)]
pub struct Scoped(Option<ScopeFn>);

/// A builder of an [`IdempotencyLayer`]. It cannot be built until the owner of a key is defined:
///
/// ```compile_fail,E0599
/// # use hapax_http::IdempotencyLayer;
/// # use hapax_store::{InMemoryStore, TieredDedup};
/// # fn example(dedup: TieredDedup<InMemoryStore>) {
/// let layer = IdempotencyLayer::builder(dedup).build(); // neither `scope` nor `global_scope`
/// # }
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct LayerBuilder<S: Store, Scope = Scoped> {
    dedup: TieredDedup<S>,
    scope: Option<Scope>,
    options: Options,
}

impl<S: Store> IdempotencyLayer<S> {
    /// Starts configuring a layer over an engine. The engine's own scope is the namespace of the
    /// keys, so that other ids are never taken for one: a second service on the same store has
    /// another one, and so has a consumer, by its name. The engine's retention is the time for
    /// which keys are remembered, and its lease that for which a key belongs to its request: it is
    /// renewed every third of it while the handler runs, and retries wait for it if this process
    /// dies.
    pub fn builder(dedup: TieredDedup<S>) -> LayerBuilder<S, Unscoped> {
        LayerBuilder { dedup, scope: None, options: Options::default() }
    }
}

impl<S: Store> LayerBuilder<S, Unscoped> {
    /// Sets the owner of a key: the tenant, the user, the owner of the API key. The same key of two
    /// owners is two keys. `None` refuses the request
    /// ([`Problem::ScopeMissing`](super::Problem::ScopeMissing)).
    ///
    /// The scope must be verified by the server, for example in an extension that an authentication
    /// outside of this layer has set, and not merely a client's claim: a client that chooses
    /// another's scope gets the responses of that scope, and one that chooses a new scope each time
    /// has a new quota each time.
    pub fn scope(self, scope: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> LayerBuilder<S, Scoped> {
        LayerBuilder { dedup: self.dedup, scope: Some(Scoped(Some(Arc::new(scope)))), options: self.options }
    }

    /// Makes all clients share their keys: a client that knows a key, and the request that it was
    /// used for, gets its response. They share their quotas, too: one client can have the others
    /// refused. For a server with one client.
    pub fn global_scope(self) -> LayerBuilder<S, Scoped> {
        LayerBuilder { dedup: self.dedup, scope: Some(Scoped(None)), options: self.options }
    }
}

impl<S: Store, Scope> LayerBuilder<S, Scope> {
    fn with(mut self, set: impl FnOnce(&mut Options)) -> Self {
        set(&mut self.options);
        self
    }

    /// Sets the header of keys. Default: `Idempotency-Key`.
    pub fn header(self, header: HeaderName) -> Self {
        self.with(|it| it.header = header)
    }

    /// Sets the covered methods; requests with other methods go through untouched. Default: POST
    /// and PATCH. The effects of PUT and DELETE are idempotent by themselves, their answers are not
    /// (a DELETE is answered 404 when it comes again): add them where a retry is to get the first
    /// answer.
    pub fn methods(self, methods: impl Into<Vec<Method>>) -> Self {
        self.with(|it| it.methods = methods.into())
    }

    /// Sets the treatment of a request without a key. Default: it is refused.
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.with(|it| it.on_missing = on_missing)
    }

    /// Sets the identity of a request besides its key. Default:
    /// [`fingerprint::exact`](super::fingerprint::exact).
    pub fn fingerprint(self, fingerprint: impl Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync + 'static) -> Self {
        self.with(|it| it.fingerprint = Arc::new(fingerprint))
    }

    /// Sets the responses that are stored, by their status; after others the key is free again.
    /// Default: [`stores_status`](super::stores_status).
    pub fn stores_status(self, stores: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.with(|it| it.stores = Arc::new(stores))
    }

    /// Sets the time for which a response is replayed, by its request: a route, a method. `None`,
    /// and the default: the engine's retention. The function is called when the key is claimed.
    /// With an exclusive engine the time must not be longer than the engine's retention, and never
    /// zero: both are [`Problem::StoreFailed`](super::Problem::StoreFailed).
    ///
    /// ```
    /// # use hapax_http::IdempotencyLayer;
    /// # use hapax_store::{InMemoryStore, TieredDedup};
    /// # use std::time::Duration;
    /// # fn example(dedup: TieredDedup<InMemoryStore>) {
    /// let layer = IdempotencyLayer::builder(dedup).global_scope().retention(|request| {
    ///     request.uri.path().starts_with("/payments/").then(|| Duration::from_secs(7 * 24 * 3600))
    /// });
    /// # }
    /// ```
    pub fn retention(self, retention: impl Fn(&Parts) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.with(|it| it.retention = Some(Arc::new(retention)))
    }

    /// Sets the time for which a key whose retention is over is remembered as expired:
    /// [`Problem::KeyExpired`](super::Problem::KeyExpired) (410), and the handler is not run again.
    /// After that, and by default at once, the key is a new one. The store keeps the record, with
    /// its response, for this much longer: a key costs as much as if its retention were longer by
    /// that.
    pub fn gone_for(self, time: Duration) -> Self {
        self.with(|it| it.gone_for = time)
    }

    /// Sets the largest body: of a request, of which a larger one is refused; and of a response
    /// that is stored, with its headers and trailers, each with 32 bytes besides its name and
    /// value. A larger response is passed on, and its request recorded as done without it; so is
    /// one of more than 1,024 headers or trailers, or 256 KiB of either. Default: 1 MiB.
    ///
    /// A request's whole body must arrive within 30 seconds for each MiB of this, and at least 30
    /// seconds, however slowly it trickles.
    pub fn max_body_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_body_bytes = bytes)
    }

    /// Sets the time that a handler and the body of its response may take. It goes on when its
    /// client is gone, so this limit ends a handler that hangs. Default: 10 minutes.
    pub fn handler_timeout(self, timeout: Duration) -> Self {
        self.with(|it| it.handler_timeout = timeout)
    }

    /// Sets the time that a request waits for another one with the same key that is in progress,
    /// before it is refused: it asks the store after 5 ms, twice that, and so on up to a quarter of
    /// a second, which is also its largest delay. Default: it does not wait.
    pub fn wait(self, patience: Duration) -> Self {
        self.with(|it| it.wait = patience)
    }

    /// Sets the number of covered requests that may be in flight, their clients gone or not: their
    /// keys are claimed or waited for, or their handlers run. As many more may be in the middle of
    /// their bodies, so that a client that sends slowly keeps no handler from running. Further
    /// requests are refused ([`Problem::Busy`](super::Problem::Busy)). Default: 4,096.
    pub fn max_in_flight(self, requests: usize) -> Self {
        self.with(|it| it.max_in_flight = requests)
    }

    /// Sets the number of bytes of bodies that may be in memory: of requests from their arrival
    /// until the handler has dropped them, of responses until the client has them. Beyond that
    /// requests are refused ([`Problem::Busy`](super::Problem::Busy)). The response of an admitted
    /// request is never refused, so the total may be larger, by
    /// [`max_body_bytes`](LayerBuilder::max_body_bytes) for each of them. Default: 256 MiB, or four
    /// times the largest request if that is more.
    pub fn max_buffered_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_buffered_bytes = Some(bytes))
    }

    /// Sets the number of bytes that one scope may have stored within the engine's retention: of
    /// responses, and 1,024 for each key. A new key beyond that is refused
    /// ([`Problem::QuotaExceeded`](super::Problem::QuotaExceeded)), until some have expired.
    /// Retries of stored keys are answered. The bytes are counted by this instance, from its start,
    /// whatever the retention of a key: with several instances, and after a restart, a scope may
    /// store as many in each. Responses in flight are not counted yet. A scope takes 420 bytes for
    /// it while it has any. Default: no limit.
    pub fn max_kept_bytes_per_scope(self, bytes: u64) -> Self {
        self.with(|it| it.max_kept_bytes_per_scope = Some(bytes))
    }

    /// Names the holder of a key that is [in progress](super::Problem::InProgress) to whoever is
    /// refused because of it, as the member `held_by` of the problem: the engine's
    /// [name](hapax_store::TieredBuilder::held_by), if it has one. Default: no. A name of a host or
    /// a trace is for colleagues, and not for clients from outside.
    pub fn names_holder(self, names: bool) -> Self {
        self.with(|it| it.names_holder = names)
    }

    /// Sets the response for a problem: its status, headers and body. Default:
    /// [`ProblemDetails::response`].
    pub fn problem_response(
        self,
        response: impl Fn(&ProblemDetails) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.problem_response = Some(Arc::new(response)))
    }
}

impl<S: Store> LayerBuilder<S, Scoped> {
    /// Builds the layer, on the tokio runtime on which this is called.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] names the wrong option, or reports that there is no runtime.
    pub fn build(self) -> Result<IdempotencyLayer<S>, StoreError> {
        let scope = self.scope.and_then(|scoped| scoped.0);
        self.options.validate(scope.is_some())?;
        let (retention, is_exclusive) = self.dedup.remembers();
        self.options.validate_retention(is_exclusive)?;
        let runtime = Handle::try_current()
            .map_err(|error| StoreError::caused(ErrorKind::Misconfigured, "http", "expected a tokio runtime", error))?;
        let kept_for = retention.saturating_add(self.options.gone_for);
        Ok(IdempotencyLayer(Arc::new(Shared {
            dedup: self.dedup,
            scope,
            reservations: self.options.max_kept_bytes_per_scope.map(|max| Reservations::new(max, kept_for)),
            durations: TypicalDurations::new(),
            permits: Permits::new(self.options.limits()),
            options: self.options,
            counters: Counters::default(),
            runtime,
        })))
    }
}
