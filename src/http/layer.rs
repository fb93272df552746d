//! The layer, and how it is configured.

use super::headers::keeps_header;
use super::problem::Problem;
use super::service::IdempotencyService;
use super::stats::{Counters, HttpStats};
use super::{IDEMPOTENCY_KEY, fingerprint};
use crate::TieredDedup;
use crate::store::{ErrorKind, Fingerprint, Store, StoreError};
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tower_layer::Layer;

/// What happens to a request without a key, where one is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// It is refused: [`Problem::KeyMissing`].
    #[default]
    Reject,
    /// It is handled, as often as it comes.
    Pass,
}

/// Handles a request once, however often it comes: a tower layer for axum, or any service of `http` types.
#[doc = include_str!("layer.md")]
pub struct IdempotencyLayer<S: Store>(pub(super) Arc<Shared<S>>);

/// What all clones of a layer and its services share.
pub(super) struct Shared<S: Store> {
    pub(super) dedup: TieredDedup<S>,
    pub(super) scope: Option<ScopeFn>,
    pub(super) options: Options,
    /// Room for requests: of each, two bodies are in memory at most.
    pub(super) room: Arc<Semaphore>,
    pub(super) counters: Counters,
    pub(super) runtime: Handle,
}

type ScopeFn = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;
type FingerprintFn = Arc<dyn Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync>;

pub(super) struct Options {
    pub(super) header: HeaderName,
    pub(super) methods: Vec<Method>,
    pub(super) on_missing: OnMissing,
    pub(super) fingerprint: FingerprintFn,
    pub(super) stores: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
    pub(super) keeps_header: Arc<dyn Fn(&HeaderName) -> bool + Send + Sync>,
    pub(super) max_request_bytes: usize,
    pub(super) max_response_bytes: usize,
    pub(super) body_timeout: Duration,
    pub(super) handler_timeout: Duration,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
    pub(super) retry_after: Duration,
    pub(super) max_in_flight: usize,
    pub(super) statuses: HashMap<Problem, StatusCode>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            header: IDEMPOTENCY_KEY,
            methods: vec![Method::POST, Method::PATCH],
            on_missing: OnMissing::Reject,
            fingerprint: Arc::new(fingerprint::exact),
            stores: Arc::new(stores_status),
            keeps_header: Arc::new(keeps_header),
            max_request_bytes: 1 << 20,
            max_response_bytes: 1 << 20,
            body_timeout: Duration::from_secs(30),
            handler_timeout: Duration::from_secs(600),
            lease: Duration::from_secs(30),
            wait: Duration::ZERO,
            retry_after: Duration::from_secs(1),
            max_in_flight: 4_096,
            statuses: HashMap::new(),
        }
    }
}

/// The default of what is stored: every status but 1xx, 5xx, 401, 403, 408 and 429, after which a retry may fare better.
///
/// ```
/// use hapax::http::stores_status;
/// use http::StatusCode;
///
/// assert!(stores_status(StatusCode::CREATED) && stores_status(StatusCode::NOT_FOUND));
/// assert!(!stores_status(StatusCode::BAD_GATEWAY) && !stores_status(StatusCode::TOO_MANY_REQUESTS));
/// ```
pub fn stores_status(status: StatusCode) -> bool {
    !status.is_informational() && !status.is_server_error() && !matches!(status.as_u16(), 401 | 403 | 408 | 429)
}

/// Who asks is not said yet, so there is no layer to be built.
#[derive(Debug)]
pub enum Unscoped {}

/// Who asks is known.
#[derive(Clone)]
pub struct Scoped(Option<ScopeFn>);

/// Configures an [`IdempotencyLayer`]. It cannot be built until it is said whose the keys are:
///
/// ```compile_fail,E0599
/// # use hapax::{TieredDedup, http::IdempotencyLayer, store::InMemoryStore};
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
    /// Starts configuring a layer over an engine. The engine's own scope is the namespace of the keys, so that other ids are never taken for one;
    /// its retention is how long they are remembered.
    pub fn builder(dedup: TieredDedup<S>) -> LayerBuilder<S, Unscoped> {
        LayerBuilder { dedup, scope: None, options: Options::default() }
    }

    /// Returns when no covered request is in flight, and refuses new ones meanwhile ([`Problem::Busy`]): for the end of a server, after it has closed its
    /// connections, since handlers whose clients are gone are not theirs any more.
    pub async fn idle(&self) {
        // At most 2^28 of them; nobody closes it.
        let _ = self.0.room.acquire_many(self.0.options.max_in_flight as u32).await;
    }

    /// What became of requests.
    pub fn stats(&self) -> HttpStats {
        self.0.counters.stats()
    }
}

impl<S: Store> LayerBuilder<S, Unscoped> {
    /// Whose a key is: the tenant, the user, the API key's owner. The same key of two of them is two keys. `None` refuses the request
    /// ([`Problem::ScopeMissing`]).
    ///
    /// It must be what the server has verified, say an extension that an authentication outside of this layer has set, not what a client merely says:
    /// who chooses another's scope is given their responses.
    pub fn scope(self, scope: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> LayerBuilder<S, Scoped> {
        LayerBuilder { dedup: self.dedup, scope: Some(Scoped(Some(Arc::new(scope)))), options: self.options }
    }

    /// All who ask share their keys: whoever knows one, and the request that it was used for, is given its response. For a server with one client.
    pub fn global_scope(self) -> LayerBuilder<S, Scoped> {
        LayerBuilder { dedup: self.dedup, scope: Some(Scoped(None)), options: self.options }
    }
}

impl<S: Store, Scope> LayerBuilder<S, Scope> {
    fn with(mut self, set: impl FnOnce(&mut Options)) -> Self {
        set(&mut self.options);
        self
    }

    /// The header of keys. Default: `Idempotency-Key`.
    pub fn header(self, header: HeaderName) -> Self {
        self.with(|it| it.header = header)
    }

    /// Which methods are covered; requests of others go through untouched. Default: POST and PATCH, since the rest are idempotent by themselves.
    pub fn methods(self, methods: impl Into<Vec<Method>>) -> Self {
        self.with(|it| it.methods = methods.into())
    }

    /// What happens to a request without a key. Default: it is refused.
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.with(|it| it.on_missing = on_missing)
    }

    /// What a request is besides its key. Default: [`fingerprint::exact`].
    pub fn fingerprint(self, fingerprint: impl Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync + 'static) -> Self {
        self.with(|it| it.fingerprint = Arc::new(fingerprint))
    }

    /// Which responses are stored, by their status; after others the key is free again. Default: [`stores_status`].
    pub fn stores_status(self, stores: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.with(|it| it.stores = Arc::new(stores))
    }

    /// Which headers of a response are stored. Those of a connection never are. Default: [`keeps_header`].
    pub fn keeps_header(self, keeps: impl Fn(&HeaderName) -> bool + Send + Sync + 'static) -> Self {
        self.with(|it| it.keeps_header = Arc::new(keeps))
    }

    /// The largest body of a request that is read; a larger one is refused. Default: 1 MiB.
    pub fn max_request_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_request_bytes = bytes)
    }

    /// The largest body of a response that is stored; a larger one is passed on, and the request recorded as done without it. Default: 1 MiB.
    pub fn max_response_bytes(self, bytes: usize) -> Self {
        self.with(|it| it.max_response_bytes = bytes)
    }

    /// How long a request's body may take to come. Default: 30 seconds.
    pub fn body_timeout(self, timeout: Duration) -> Self {
        self.with(|it| it.body_timeout = timeout)
    }

    /// How long a handler and the body of its response may take. It goes on when its client is gone, so this is what ends one that hangs.
    /// Default: 10 minutes.
    pub fn handler_timeout(self, timeout: Duration) -> Self {
        self.with(|it| it.handler_timeout = timeout)
    }

    /// For how long a key is its request's after a sign of life: every third of it, while the handler runs, the lease is renewed. How long retries are put off if this
    /// process dies. Default: 30 seconds.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|it| it.lease = lease)
    }

    /// How long a request waits for one with the same key that is in progress, before it is told so: it asks the store after 5 ms, twice that, and so on up to a
    /// quarter of a second, which is by how much it may be late. Default: not at all.
    pub fn wait(self, patience: Duration) -> Self {
        self.with(|it| it.wait = patience)
    }

    /// What `Retry-After` says when the store cannot be asked, or too many requests are in flight. Default: a second.
    pub fn retry_after(self, pause: Duration) -> Self {
        self.with(|it| it.retry_after = pause)
    }

    /// How many covered requests may be in flight, their clients gone or not; more are refused ([`Problem::Busy`]). Each may hold a request's body and a
    /// response's in memory. Default: 4,096.
    pub fn max_in_flight(self, requests: usize) -> Self {
        self.with(|it| it.max_in_flight = requests)
    }

    /// With which status a problem is told. Default: [`Problem::status`].
    pub fn status(self, problem: Problem, status: StatusCode) -> Self {
        self.with(|it| {
            it.statuses.insert(problem, status);
        })
    }
}

impl<S: Store> LayerBuilder<S, Scoped> {
    /// Builds the layer, on the tokio runtime on which this is called.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] says which option is wrong, or that there is no runtime.
    pub fn build(self) -> Result<IdempotencyLayer<S>, StoreError> {
        self.options.validate()?;
        let runtime = Handle::try_current()
            .map_err(|error| StoreError::caused(ErrorKind::Misconfigured, "http", "expected a tokio runtime", error))?;
        Ok(IdempotencyLayer(Arc::new(Shared {
            dedup: self.dedup,
            scope: self.scope.and_then(|scoped| scoped.0),
            room: Arc::new(Semaphore::new(self.options.max_in_flight)),
            options: self.options,
            counters: Counters::default(),
            runtime,
        })))
    }
}

impl Options {
    fn validate(&self) -> Result<(), StoreError> {
        const MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
        let check = |valid: bool, option: &str, got: &dyn std::fmt::Debug, expected: &str| match valid {
            true => Ok(()),
            false => {
                let wrong = format!("option `{option}`: got {got:?}, expected {expected}");
                Err(StoreError::new(ErrorKind::Misconfigured, "http", wrong))
            }
        };
        check(!self.methods.is_empty(), "methods", &self.methods, "at least one")?;
        for (option, time) in [
            ("body_timeout", self.body_timeout),
            ("handler_timeout", self.handler_timeout),
            ("lease", self.lease),
            ("retry_after", self.retry_after),
        ] {
            check(!time.is_zero() && time <= MAX, option, &time, "a duration of up to 100 years, not none")?;
        }
        check(self.wait <= MAX, "wait", &self.wait, "at most 100 years")?;
        let in_flight = 1..=1 << 28;
        check(in_flight.contains(&self.max_in_flight), "max_in_flight", &self.max_in_flight, "1 to 2^28")?;
        let bytes = 0..=1 << 30;
        check(bytes.contains(&self.max_request_bytes), "max_request_bytes", &self.max_request_bytes, "at most 1 GiB")?;
        check(
            bytes.contains(&self.max_response_bytes),
            "max_response_bytes",
            &self.max_response_bytes,
            "at most 1 GiB",
        )?;
        for (problem, status) in &self.statuses {
            let is_error = status.is_client_error() || status.is_server_error();
            check(is_error, "status", &(problem, status), "a status of 400 to 599")?;
        }
        Ok(())
    }
}

impl<S: Store> Clone for IdempotencyLayer<S> {
    fn clone(&self) -> Self {
        IdempotencyLayer(Arc::clone(&self.0))
    }
}

impl<S: Store> std::fmt::Debug for IdempotencyLayer<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyLayer").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl<Inner, S: Store> Layer<Inner> for IdempotencyLayer<S> {
    type Service = IdempotencyService<Inner, S>;

    fn layer(&self, inner: Inner) -> IdempotencyService<Inner, S> {
        IdempotencyService::new(inner, Arc::clone(&self.0))
    }
}
