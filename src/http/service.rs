//! A request's way to the handler: its key, its body, its claim.

use super::body::{self, Body, Reading};
use super::headers;
use super::key::{self, IdempotencyKey, KeyError};
use super::layer::{OnMissing, Shared};
use super::outgoing_layer::REPLAYED;
use super::problem::{Problem, Refusal};
use super::quota::Full;
use super::record::{self, Content, Kept};
use super::room::Permit;
use super::run::{self, Handles, Sent};
use crate::back_off::jittered;
use crate::store::{Fingerprint, Store, StoreError};
use crate::{Done, Key, Tier, TieredAttempt, TieredClaim, TieredClaimOptions};
use bytes::Bytes;
use http::header::TRAILER;
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body::Body as HttpBody;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower_service::Service;

/// A service with an [`IdempotencyLayer`](super::IdempotencyLayer) on it.
pub struct IdempotencyService<Inner, S: Store> {
    inner: Inner,
    shared: Arc<Shared<S>>,
}

impl<Inner, S: Store> IdempotencyService<Inner, S> {
    pub(super) fn new(inner: Inner, shared: Arc<Shared<S>>) -> Self {
        IdempotencyService { inner, shared }
    }
}

impl<Inner: Clone, S: Store> Clone for IdempotencyService<Inner, S> {
    fn clone(&self) -> Self {
        IdempotencyService { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<Inner: std::fmt::Debug, S: Store> std::fmt::Debug for IdempotencyService<Inner, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<Inner, S, B, R> Service<Request<B>> for IdempotencyService<Inner, S>
where
    Inner: Service<Request<Body<B>>, Response = Response<R>> + Clone + Send + 'static,
    Inner::Future: Send + 'static,
    Inner::Error: Send + 'static,
    S: Store,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Send,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<Body<R>>;
    type Error = Inner::Error;
    type Future = Boxed<Result<Response<Body<R>>, Inner::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Inner::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready; the clone is not.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        match shared.options.methods.contains(request.method()) {
            true => Box::pin(serve(shared, inner, request)),
            false => pass(inner, request),
        }
    }
}

/// Hands the request to the handler as if there were no layer.
fn pass<Inner, B, R>(mut inner: Inner, request: Request<B>) -> Boxed<Result<Response<Body<R>>, Inner::Error>>
where
    Inner: Handles<B, R>,
    B: Sent,
    R: Sent,
{
    let response = inner.call(request.map(Body::untouched));
    Box::pin(async move { Ok(response.await?.map(Body::untouched)) })
}

async fn serve<Inner, S, B, R>(
    shared: Arc<Shared<S>>,
    inner: Inner,
    request: Request<B>,
) -> Result<Response<Body<R>>, Inner::Error>
where
    Inner: Handles<B, R>,
    S: Store,
    B: Sent,
    R: Sent,
{
    let (parts, body) = request.into_parts();
    let name = match shared.name(&parts) {
        Ok(Some(name)) => name,
        Ok(None) => {
            shared.counters.passed.count();
            return pass(inner, Request::from_parts(parts, body)).await;
        }
        Err(refusal) => return Ok(shared.refuse(&refusal)),
    };
    match shared.admit(name, parts, body).await {
        Ok(Admitted::Replay(kept, bytes)) => Ok(shared.replay(kept, bytes)),
        Ok(Admitted::Run { claim, request, room }) => run::to_its_end(shared, claim, inner, request, room).await,
        Err(refusal) => Ok(shared.refuse(&refusal)),
    }
}

/// What a request is called.
struct Name {
    scope: Option<Arc<str>>,
    key: Arc<str>,
}

impl Name {
    /// The id of the engine: without ambiguity, whatever is in either part.
    fn id(&self) -> Key {
        let mut id = Key::new();
        match &self.scope {
            Some(scope) => id.text(scope),
            None => id.null(),
        };
        id.text(&self.key);
        id
    }
}

#[expect(clippy::large_enum_variant, reason = "it is moved once")]
enum Admitted<S: Store, B: HttpBody> {
    Run { claim: TieredClaim<S>, request: Request<Body<B>>, room: Permit },
    Replay(Kept, Permit),
}

enum Attempt<S: Store> {
    Claimed(TieredClaim<S>),
    Done(Option<Vec<u8>>),
}

impl<S: Store> Shared<S> {
    /// What the request is called; nothing, if it has no key and may go through without.
    fn name(&self, parts: &Parts) -> Result<Option<Name>, Refusal> {
        let header = &self.options.header;
        let key = match key::parse(parts.headers.get_all(header).iter().map(HeaderValue::as_bytes)) {
            Ok(key) => key.into(),
            Err(KeyError::Missing) if self.options.on_missing == OnMissing::Pass => return Ok(None),
            Err(error) => {
                let problem = if error == KeyError::Missing { Problem::KeyMissing } else { Problem::KeyMalformed };
                return Err(Refusal::new(problem, format!("{header}: {error}")));
            }
        };
        let nobody = || Refusal::new(Problem::ScopeMissing, "expected to know who asks, got nobody");
        let scope = self.scope.as_ref().map(|scope| scope(parts).ok_or_else(nobody)).transpose()?;
        Ok(Some(Name { scope: scope.map(Arc::from), key }))
    }

    /// Reads the request, and claims its key.
    async fn admit<B: Sent>(&self, name: Name, mut parts: Parts, body: B) -> Result<Admitted<S, B>, Refusal> {
        let scope = name.scope.clone();
        let reading = self.room.enter(scope.as_ref()).map_err(|full| self.full(full))?;
        let mut bytes = self.room.no_bytes(scope.as_ref());
        let read = self.read(body, &mut bytes).await?;
        // A request that is read slowly has cost nobody a place among those that are handled.
        let room = reading.run().map_err(|full| self.full(full))?;
        let fingerprint = self.fingerprint(&parts, &read.data, &room).await;
        match self.attempt(&name, fingerprint).await? {
            Attempt::Claimed(claim) => {
                parts.extensions.insert(IdempotencyKey {
                    key: name.key,
                    scope: name.scope,
                    token: claim.token(),
                    is_verified: claim.is_verified(),
                });
                let body = Body::from(read).holding(bytes);
                Ok(Admitted::Run { claim, request: Request::from_parts(parts, body), room })
            }
            Attempt::Done(None) => {
                let detail = "it was completed without a response";
                Err(Refusal::new(Problem::ResponseNotKept, detail))
            }
            Attempt::Done(Some(record)) => {
                drop((read, bytes));
                let mut bytes = self.room.no_bytes(scope.as_ref());
                bytes.grow(record.len()).map_err(|full| self.full(full))?;
                match record::decode(record) {
                    Ok(kept) => Ok(Admitted::Replay(kept, bytes)),
                    Err(error) => Err(Refusal::new(Problem::ResponseUnreadable, error.to_string())),
                }
            }
        }
    }

    /// Returns what the request is. Of one scope, one body of some size at a time is looked at:
    /// many that come at once keep one processor busy, not all of them.
    async fn fingerprint(&self, parts: &Parts, body: &[u8], room: &Permit) -> Fingerprint {
        const SMALL: usize = 4 << 10;
        let turn = if body.len() > SMALL { room.turn() } else { None };
        let _mine = match &turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        (self.options.fingerprint)(parts, body)
    }

    async fn read<B: Sent>(&self, body: B, bytes: &mut Permit) -> Result<body::Read, Refusal> {
        let (max, patience) = (self.options.max_request_bytes, self.options.body_timeout);
        let too_large = || Refusal::new(Problem::BodyTooLarge, format!("expected at most {max} bytes, got more"));
        match tokio::time::timeout(patience, body::read(body, max, |more| bytes.grow(more))).await {
            Ok(Reading::Whole(read)) if read.bytes() > max => Err(too_large()),
            Ok(Reading::Whole(read)) => Ok(read),
            Ok(Reading::TooLarge(_)) => Err(too_large()),
            Ok(Reading::Full(full)) => Err(self.full(full)),
            Ok(Reading::Failed(_)) => Err(Refusal::new(Problem::BodyUnreadable, "the body broke off")),
            Err(_) => Err(Refusal::new(Problem::BodyTimeout, format!("expected a body within {patience:?}"))),
        }
    }

    /// Claims the key, and waits for somebody else's claim of it as long as the options say.
    async fn attempt(&self, name: &Name, fingerprint: Fingerprint) -> Result<Attempt<S>, Refusal> {
        const MAX_PAUSE: Duration = Duration::from_millis(250);
        const MAX_BLIND: u32 = 3;
        let (id, deadline) = (name.id(), Instant::now() + self.options.wait);
        let options = TieredClaimOptions::new().lease(self.options.lease).fingerprint(fingerprint.0).wants_result();
        let (mut pause, mut blind) = (Duration::from_millis(5), 0);
        loop {
            let lease_left = match self.dedup.claim_with(&id, options).await {
                Ok(TieredAttempt::Claimed(claim)) => return Ok(Attempt::Claimed(claim)),
                // Memory knows that it is done, just now, but not with what result: the store does.
                Ok(TieredAttempt::Duplicate(done)) if knows_no_result(&done) && blind < MAX_BLIND => {
                    blind += 1;
                    continue;
                }
                Ok(TieredAttempt::Duplicate(done)) => return Ok(Attempt::Done(done.result)),
                Ok(TieredAttempt::Mismatch) => {
                    let detail = "expected the request that this key was first used for";
                    return Err(Refusal::new(Problem::FingerprintMismatch, detail));
                }
                Ok(TieredAttempt::TooMany) => {
                    let full = "too many keys are in progress";
                    return Err(Refusal::new(Problem::Busy, full).retry_after(self.options.retry_after));
                }
                Ok(TieredAttempt::InProgress { lease_left }) => lease_left,
                Err(error) => return Err(self.store_refusal(&error)),
            };
            let now = Instant::now();
            if now >= deadline {
                let detail = "its first request is being handled";
                return Err(Refusal::new(Problem::InProgress, detail).retry_after(lease_left));
            }
            // At least a millisecond: a lease that is over in the store's time may not be in ours.
            let wait = jittered(pause, self.dedup.random()).min(lease_left.max(pause / 4));
            let until = now + wait.max(Duration::from_millis(1));
            tokio::time::sleep_until(deadline.min(until)).await;
            pause = (2 * pause).min(MAX_PAUSE);
        }
    }

    /// A scope that has what one may have is told so; if all together have what there is, everybody
    /// is.
    fn full(&self, full: Full) -> Refusal {
        let problem = match full {
            Full::Scope(..) => {
                self.counters.over_quota.count();
                Problem::QuotaExceeded
            }
            Full::All(..) | Full::Closing => Problem::Busy,
        };
        Refusal::new(problem, full.to_string()).retry_after(self.options.retry_after)
    }

    /// What clients are told says no more than the kind: addresses and names of servers are not for them.
    fn store_refusal(&self, error: &StoreError) -> Refusal {
        let detail = format!("the store of keys: {}", error.kind());
        match error.kind().is_transient() {
            true => Refusal::new(Problem::StoreUnavailable, detail).retry_after(self.options.retry_after),
            false => Refusal::new(Problem::StoreFailed, detail),
        }
    }

    /// One of the layer's own answers.
    pub(super) fn refuse<R: HttpBody>(&self, refusal: &Refusal) -> Response<Body<R>> {
        self.counters.refused.count();
        let problem = refusal.problem;
        refusal.response(self.options.statuses.get(&problem).copied().unwrap_or(problem.status()))
    }

    /// What was kept.
    fn replay<R: HttpBody>(&self, kept: Kept, bytes: Permit) -> Response<Body<R>> {
        let status = kept.status;
        let Some(Content { headers, trailers, body }) = kept.content else {
            let detail = format!("its status was {}, its body was too large to be kept", status.as_u16());
            return self.refuse(&Refusal::new(Problem::ResponseNotKept, detail));
        };
        self.counters.replayed.count();
        // Kept by somebody else, perhaps, or under other rules: what is not kept is not sent
        // either.
        let keeps = &*self.options.keeps_header;
        let (mut headers, trailers) = (headers::kept(headers, keeps), headers::kept_trailers(trailers, keeps));
        if let Some(names) = headers::announced(&trailers) {
            headers.insert(TRAILER, names);
        }
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        let trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
        let body = Body::from(body::Read { data: body, trailers }).holding(bytes);
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

fn knows_no_result(done: &Done) -> bool {
    done.result.is_none() && done.verdict.tier() == Tier::Window
}
