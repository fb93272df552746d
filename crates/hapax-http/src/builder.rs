//! The configuration of a layer.

use super::layer::{IdempotencyLayer, OnMissing, Shared};
use super::options::Options;
use super::problem::Problem;
use super::room::Room;
use super::stats::Counters;
use super::tab::Tabs;
use super::telling::ProblemDetails;
use super::usual::Usual;
use bytes::Bytes;
use hapax_store::{ErrorKind, Fingerprint, Store, StoreError, TieredDedup};
use http::request::Parts;
use http::{HeaderName, Method, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

pub(super) type ScopeFn = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// Who asks is not said yet, so there is no layer to be built.
#[derive(Debug)]
pub enum Unscoped {}

/// Who asks is known.
#[derive(Clone)]
pub struct Scoped(Option<ScopeFn>);

/// Configures an [`IdempotencyLayer`]. It cannot be built until it is said whose the keys are:
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

impl<S: Store> LayerBuilder<S, Unscoped> {
    pub(super) fn new(dedup: TieredDedup<S>) -> Self {
        LayerBuilder { dedup, scope: None, options: Options::default() }
    }

    /// Sets whose a key is: the tenant's, the user's, the API key's owner's. The same key of two of
    /// them is two keys. `None` refuses the request ([`Problem::ScopeMissing`]).
    ///
    /// It must be what the server has verified, say an extension that an authentication outside of
    /// this layer has set, not what a client merely says: who chooses another's scope is given
    /// their responses, and who chooses a new one each time has a new quota each time.
    pub fn scope(self, scope: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> LayerBuilder<S, Scoped> {
        LayerBuilder { dedup: self.dedup, scope: Some(Scoped(Some(Arc::new(scope)))), options: self.options }
    }

    /// Has all who ask share their keys: whoever knows one, and the request that it was used for,
    /// is given its response. They share their quotas, too: one of them can have the rest refused.
    /// For a server with one client.
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

    /// Sets which methods are covered; requests of others go through untouched. Default: POST and
    /// PATCH. The effects of PUT and DELETE are idempotent by themselves, their answers are not (a
    /// DELETE is answered 404 when it comes again): add them where a retry is to get the first one.
    pub fn methods(self, methods: impl Into<Vec<Method>>) -> Self {
        self.with(|it| it.methods = methods.into())
    }

    /// Sets what happens to a request without a key. Default: it is refused.
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

    /// Sets the statuses after which nothing is remembered unless the handler has said that it has
    /// [begun](super::IdempotencyKey::begin): those by which routers and extractors refuse a
    /// request before it is handled. The client may mend its request, and keep its key. Default:
    /// [`refuses_status`](super::refuses_status); `|_| false` remembers all that
    /// [`stores_status`](LayerBuilder::stores_status) lets.
    pub fn refuses_status(self, refuses: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.with(|it| it.refuses = Arc::new(refuses))
    }

    /// Sets how long a response is replayed, by its request: a route, a method. `None`, and the
    /// default: for the engine's retention. It is asked when the key is claimed. Not for longer
    /// than that with an exclusive engine, nor none at all: both are [`Problem::StoreFailed`].
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

    /// Sets how long a key whose retention is over is remembered as expired:
    /// [`Problem::KeyExpired`] (410), and the handler is not run again. After that, and by default
    /// at once, the key is a new one. The store keeps the record, with its response, for so much
    /// longer: a key costs as much as if its retention were longer by that.
    pub fn gone_for(self, time: Duration) -> Self {
        self.with(|it| it.gone_for = time)
    }

    /// Sets how long a response waits for the store to have recorded it, or released its key. Then
    /// it goes out all the same, and recording goes on, for as long as a lease is
    /// ([`HttpStats::answered_early`](super::HttpStats::answered_early)); until it is done, the
    /// request is in flight, and what is to be recorded counts for
    /// [`max_buffered_bytes`](LayerBuilder::max_buffered_bytes). A retry that comes in between is
    /// told 409. Default: a second.
    pub fn answer_within(self, time: Duration) -> Self {
        self.with(|it| it.answer_within = time)
    }

    /// Sets which headers and trailers of a response are kept: asked when it is stored, and again
    /// when it is replayed, since a record may be older than this function, or somebody else's.
    /// Those of a connection and of authentication never are. Default:
    /// [`keeps_header`](super::keeps_header), which a function that leaves out more calls itself:
    /// `|name| name != "x-debug" && keeps_header(name)`.
    pub fn keeps_header(self, keeps: impl Fn(&HeaderName) -> bool + Send + Sync + 'static) -> Self {
        self.with(|it| it.keeps_header = Arc::new(keeps))
    }

    /// Sets the largest body of a request that is read; a larger one is refused. Default: 1 MiB.
    pub fn max_request_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_request_bytes = bytes)
    }

    /// Sets the largest response that is stored: its body, and its headers and trailers as far as
    /// they are kept, each with 32 bytes besides its name and value. A larger one is passed on, and
    /// the request recorded as done without it; so is one of more than 1,024 headers or trailers,
    /// or 256 KiB of either. Default: 1 MiB.
    pub fn max_response_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_response_bytes = bytes)
    }

    /// Sets how long a request's body may take to come, all of it, however it trickles. Default: 30
    /// seconds.
    pub fn body_timeout(self, timeout: Duration) -> Self {
        self.with(|it| it.body_timeout = timeout)
    }

    /// Sets how long a handler and the body of its response may take. It goes on when its client is
    /// gone, so this is what ends one that hangs. Default: 10 minutes.
    pub fn handler_timeout(self, timeout: Duration) -> Self {
        self.with(|it| it.handler_timeout = timeout)
    }

    /// Sets for how long a key is its request's after a sign of life: every third of it, while the
    /// handler runs, the lease is renewed. How long retries are put off if this process dies.
    /// Default: 30 seconds.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|it| it.lease = lease)
    }

    /// Sets how long a request waits for one with the same key that is in progress, before it is
    /// told so: it asks the store after 5 ms, twice that, and so on up to a quarter of a second,
    /// which is by how much it may be late. Default: not at all.
    pub fn wait(self, patience: Duration) -> Self {
        self.with(|it| it.wait = patience)
    }

    /// Sets the value of `Retry-After` when the store cannot be asked, or too much is in flight, of
    /// one scope or of all; and with [`Problem::InProgress`] while it is not known how long such
    /// requests take. Default: a second.
    pub fn retry_after(self, pause: Duration) -> Self {
        self.with(|it| it.retry_after = pause)
    }

    /// Sets how many covered requests may be in flight, their clients gone or not: their keys are
    /// claimed or waited for, or their handlers run. Of more each is refused ([`Problem::Busy`]).
    /// Default: 4,096.
    pub fn max_in_flight(self, requests: usize) -> Self {
        self.with(|it| it.max_in_flight = requests)
    }

    /// Sets how many requests of one scope may be in flight; more are refused to that scope alone
    /// ([`Problem::QuotaExceeded`]). Default: a quarter of
    /// [`max_in_flight`](LayerBuilder::max_in_flight).
    pub fn max_in_flight_per_scope(self, requests: usize) -> Self {
        self.with(|it| it.max_in_flight_per_scope = Some(requests))
    }

    /// Sets how many covered requests may be in the middle of their bodies; more are refused
    /// ([`Problem::Busy`]). They are not in flight yet, so a client that sends slowly keeps no
    /// handler from running. Default: 4,096.
    pub fn max_reading(self, requests: usize) -> Self {
        self.with(|it| it.max_reading = requests)
    }

    /// Sets how many requests of one scope may be in the middle of their bodies; more are refused
    /// to that scope alone ([`Problem::QuotaExceeded`]). Default: a quarter of
    /// [`max_reading`](LayerBuilder::max_reading).
    pub fn max_reading_per_scope(self, requests: usize) -> Self {
        self.with(|it| it.max_reading_per_scope = Some(requests))
    }

    /// Sets how many bytes of bodies may be in memory: of requests from when they come until the
    /// handler has dropped them, of responses until the client has them. Beyond that requests are
    /// refused ([`Problem::Busy`]). The response of a request that is in already never is, so it
    /// may be more, by [`max_response_bytes`](LayerBuilder::max_response_bytes) for each of them.
    /// Default: 256 MiB, or four times the largest request if that is more.
    pub fn max_buffered_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_buffered_bytes = Some(bytes))
    }

    /// Sets how many of these bytes may be of one scope; beyond that its requests, and no others,
    /// are refused ([`Problem::QuotaExceeded`]). Default: a quarter of
    /// [`max_buffered_bytes`](LayerBuilder::max_buffered_bytes).
    pub fn max_buffered_bytes_per_scope(self, bytes: usize) -> Self {
        self.with(|it| it.max_buffered_bytes_per_scope = Some(bytes))
    }

    /// Sets how many keys one scope may have kept within the engine's retention; a new key beyond
    /// that is refused ([`Problem::QuotaExceeded`]), until some are over. Retries of those that are
    /// kept are answered. Counted by this instance, from its start, whatever the retention of a
    /// key: of several instances, and after a restart, a scope may keep so many in each. A scope
    /// takes 420 bytes for it while it has any. Default: no limit.
    pub fn max_kept_keys_per_scope(self, keys: u64) -> Self {
        self.with(|it| it.max_kept_keys_per_scope = Some(keys))
    }

    /// Sets how many bytes of responses one scope may have kept, in the same way. Those in flight
    /// are not counted yet, so it may be more by the responses of
    /// [`max_in_flight_per_scope`](LayerBuilder::max_in_flight_per_scope). Default: no limit.
    pub fn max_kept_bytes_per_scope(self, bytes: u64) -> Self {
        self.with(|it| it.max_kept_bytes_per_scope = Some(bytes))
    }

    /// Sets the status of a problem. Default: [`Problem::status`].
    pub fn status(self, problem: Problem, status: StatusCode) -> Self {
        self.with(|it| {
            it.telling.statuses.insert(problem, status);
        })
    }

    /// Sets the `type` of problems, for those that an API documents itself. Default:
    /// [`Problem::type_uri`].
    ///
    /// ```
    /// # use hapax_http::IdempotencyLayer;
    /// # use hapax_store::{InMemoryStore, TieredDedup};
    /// # fn example(dedup: TieredDedup<InMemoryStore>) {
    /// let layer = IdempotencyLayer::builder(dedup)
    ///     .global_scope()
    ///     .problem_type(|problem| format!("https://api.example/problems/{}", problem.slug()));
    /// # }
    /// ```
    pub fn problem_type(self, type_of: impl Fn(Problem) -> String + Send + Sync + 'static) -> Self {
        self.with(|it| it.telling.type_uri = Some(Arc::new(type_of)))
    }

    /// Sets the page to which problems lead: `Link: <page>; rel="describedby"`. Default: the `type`
    /// of the problem, if it begins with `https://` or `http://`.
    pub fn documentation(self, page: impl Into<String>) -> Self {
        self.with(|it| it.telling.documentation = Some(page.into()))
    }

    /// Sets the response by which problems are told: its status, headers and body. Default:
    /// [`ProblemDetails::response`].
    pub fn problem_response(
        self,
        response: impl Fn(&ProblemDetails) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.telling.response = Some(Arc::new(response)))
    }
}

impl<S: Store> LayerBuilder<S, Scoped> {
    /// Builds the layer, on the tokio runtime on which this is called.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] says which option is wrong, or that there is no runtime.
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
            tabs: self.options.max_kept().map(|max| Tabs::new(max, kept_for)),
            usual: Usual::new(),
            room: Room::new(self.options.max(), self.options.max_per_scope()),
            options: self.options,
            counters: Counters::default(),
            runtime,
        })))
    }
}
