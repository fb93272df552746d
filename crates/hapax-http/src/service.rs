//! A request's way to the handler: its key, its body, its claim.

use super::body::{self, Body, Reading};
use super::key::{self, Begun, IdempotencyKey, KeyError};
use super::options::{OnMissing, RETRY_AFTER};
use super::run::{self, ClaimedRequest, Handles, Sent};
use super::shared::Shared;
use super::stats::Event;
use crate::limits::durations::RequestKind;
use crate::limits::permits::Permit;
use crate::limits::reservations::Reservation;
use crate::response::encoding;
use crate::response::problem::Problem;
use crate::response::problem_details::ProblemDetails;
use crate::response::record::{self, StoredResponse};
use bytes::Bytes;
use hapax_store::{Done, Fingerprint, Store, TieredAttempt, TieredClaim, TieredClaimOptions};
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body::Body as HttpBody;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
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
        // The original is ready; the clone is not.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        if shared.options.methods.contains(request.method()) {
            Box::pin(serve(shared, inner, request))
        } else {
            pass(inner, request)
        }
    }
}

/// Passes the request to the handler as if there were no layer.
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
            shared.counters.add(Event::Passed, 1);
            return pass(inner, Request::from_parts(parts, body)).await;
        }
        Err(refusal) => return Ok(shared.refuse(refusal)),
    };
    match shared.admit(name, parts, body).await {
        Ok(Admitted::Replay(kept, bytes)) => Ok(shared.replay(kept, bytes)),
        Ok(Admitted::Claimed(request)) => run::to_its_end(shared, inner, request).await,
        Err(refusal) => Ok(shared.refuse(refusal)),
    }
}

/// The name of a request.
struct Name {
    scope: Option<Arc<str>>,
    key: Arc<str>,
}

#[expect(clippy::large_enum_variant, reason = "it is moved once")]
enum Admitted<S: Store, B: HttpBody> {
    Claimed(ClaimedRequest<S, B>),
    Replay(StoredResponse, Permit),
}

enum Attempt<S: Store> {
    Claimed(TieredClaim<S>),
    Done(Done),
}

impl<S: Store> Shared<S> {
    /// Returns the request's name; `None`, if it has no key and may go through without.
    fn name(&self, parts: &Parts) -> Result<Option<Name>, ProblemDetails> {
        let header = &self.options.header;
        let key = match key::parse(parts.headers.get_all(header).iter().map(HeaderValue::as_bytes)) {
            Ok(key) => key.into(),
            Err(KeyError::Missing) if self.options.on_missing == OnMissing::Pass => return Ok(None),
            Err(error) => {
                let problem = if error == KeyError::Missing { Problem::KeyMissing } else { Problem::KeyMalformed };
                return Err(ProblemDetails::new(problem, format!("{header}: {error}")));
            }
        };
        let nobody = || ProblemDetails::new(Problem::ScopeMissing, "expected to know who asks, got nobody");
        let scope = self.scope.as_ref().map(|scope| scope(parts).ok_or_else(nobody)).transpose()?;
        Ok(Some(Name { scope: scope.map(Arc::from), key }))
    }

    /// Reads the request, and claims its key.
    async fn admit<B: Sent>(&self, name: Name, mut parts: Parts, body: B) -> Result<Admitted<S, B>, ProblemDetails> {
        let scope = name.scope.clone();
        let reading = self.permits.enter(scope.as_ref()).map_err(|full| self.full(full))?;
        let mut bytes = self.permits.no_bytes(scope.as_ref());
        let read = self.read(body, &mut bytes).await?;
        // A request that is read slowly has not taken a place among those that are handled.
        let permit = reading.run().map_err(|full| self.full(full))?;
        let fingerprint = self.fingerprint(&parts, &read.data, &permit).await;
        let kind = self.durations.kind_of(scope.as_deref(), &parts);
        let claim = match self.attempt(&name, fingerprint, &parts, kind).await? {
            Attempt::Claimed(claim) => claim,
            Attempt::Done(done) => {
                drop((read, bytes));
                return self.known(done, &parts, self.permits.no_bytes(scope.as_ref()));
            }
        };
        let (claim, reservation) = self.reserve(claim, scope.as_ref()).await?;
        let begun = Begun::default();
        parts.extensions.insert(IdempotencyKey {
            key: name.key,
            scope: name.scope,
            token: claim.token(),
            is_verified: claim.is_verified(),
            begun: begun.clone(),
        });
        let request = Request::from_parts(parts, Body::from(read).holding(bytes));
        Ok(Admitted::Claimed(ClaimedRequest { claim, request, permit, reservation, begun, kind }))
    }

    /// Returns the stored response of a request that is done.
    fn known<B: Sent>(&self, done: Done, parts: &Parts, mut bytes: Permit) -> Result<Admitted<S, B>, ProblemDetails> {
        let Some(record) = done.result else {
            return Err(ProblemDetails::new(Problem::ResponseNotKept, "it was completed without a response"));
        };
        bytes.grow(record.len()).map_err(|full| self.full(full))?;
        match record::decode(record) {
            Ok(kept) if done.expires_in.is_some_and(|left| left <= kept.gone_for) => {
                self.counters.add(Event::Expired, 1);
                let detail = "its request was handled, too long ago for its response to be sent again";
                Err(ProblemDetails::new(Problem::KeyExpired, detail))
            }
            Ok(kept) => match kept.content.as_ref().and_then(|it| encoding::unasked(&parts.headers, &it.headers)) {
                Some(coding) => {
                    let detail =
                        format!("it is kept with the encoding {coding:?}, and the request does not ask for it");
                    Err(ProblemDetails::new(Problem::ResponseNotKept, detail))
                }
                None => Ok(Admitted::Replay(kept, bytes)),
            },
            Err(error) => Err(ProblemDetails::new(Problem::ResponseUnreadable, error.to_string())),
        }
    }

    /// Charges a new key to its scope. Beyond the limit the key is released.
    async fn reserve(
        &self,
        claim: TieredClaim<S>,
        scope: Option<&Arc<str>>,
    ) -> Result<(TieredClaim<S>, Option<Reservation>), ProblemDetails> {
        let (Some(reservations), Some(scope)) = (&self.reservations, scope) else { return Ok((claim, None)) };
        match reservations.reserve(scope) {
            Ok(reservation) => Ok((claim, Some(reservation))),
            Err(exhausted) => {
                // If that fails, the lease ends the claim.
                let _ = claim.release().await;
                self.counters.add(Event::OverQuota, 1);
                Err(ProblemDetails::new(Problem::QuotaExceeded, exhausted.to_string()).retry_after(exhausted.until))
            }
        }
    }

    /// Returns the request's fingerprint. Of one scope, one body of some size at a time is
    /// processed: many that come at once keep one processor busy, not all of them.
    async fn fingerprint(&self, parts: &Parts, body: &[u8], permit: &Permit) -> Fingerprint {
        const SMALL: usize = 4 << 10;
        let turn = if body.len() > SMALL { permit.turn() } else { None };
        let _mine = match &turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        (self.options.fingerprint)(parts, body)
    }

    async fn read<B: Sent>(&self, body: B, bytes: &mut Permit) -> Result<body::Read, ProblemDetails> {
        let (max, patience) = (self.options.max_body_bytes, self.options.body_timeout());
        let too_large =
            || ProblemDetails::new(Problem::BodyTooLarge, format!("expected at most {max} bytes, got more"));
        match tokio::time::timeout(patience, body::read(body, max, |more| bytes.grow(more))).await {
            Ok(Reading::Whole(read)) if read.bytes() > max => Err(too_large()),
            Ok(Reading::Whole(read)) => Ok(read),
            Ok(Reading::TooLarge(_)) => Err(too_large()),
            Ok(Reading::Full(full)) => Err(self.full(full)),
            Ok(Reading::Failed(_)) => Err(ProblemDetails::new(Problem::BodyUnreadable, "the body broke off")),
            Err(_) => Err(ProblemDetails::new(Problem::BodyTimeout, format!("expected a body within {patience:?}"))),
        }
    }

    fn claim_options(&self, fingerprint: Fingerprint, parts: &Parts) -> TieredClaimOptions {
        let options = TieredClaimOptions::new().fingerprint(fingerprint.0).wants_result();
        let chosen = self.options.retention.as_ref().and_then(|retention| retention(parts));
        match (chosen, self.options.gone_for) {
            (None, Duration::ZERO) => options,
            (chosen, gone_for) => {
                let replayed = chosen.unwrap_or_else(|| self.dedup.remembers().0);
                // Zero is an error even if the key is remembered as gone.
                let total = if replayed.is_zero() { replayed } else { replayed.saturating_add(gone_for) };
                options.retention(total)
            }
        }
    }

    /// Claims the key, and waits for another claim of it for as long as the options allow.
    async fn attempt(
        &self,
        name: &Name,
        fingerprint: Fingerprint,
        parts: &Parts,
        kind: RequestKind,
    ) -> Result<Attempt<S>, ProblemDetails> {
        let id = key::id_of(name.scope.as_deref(), &name.key);
        let options = self.claim_options(fingerprint, parts);
        match self.dedup.claim_wait_with(&id, options, self.options.wait).await {
            Ok(TieredAttempt::Claimed(claim)) => Ok(Attempt::Claimed(claim)),
            Ok(TieredAttempt::Duplicate(done)) => Ok(Attempt::Done(done)),
            Ok(TieredAttempt::Mismatch) => {
                let detail = "expected the request that this key was first used for";
                Err(ProblemDetails::new(Problem::FingerprintMismatch, detail))
            }
            Ok(TieredAttempt::TooMany) => {
                let full = "too many keys are in progress";
                Err(ProblemDetails::new(Problem::Busy, full).retry_after(RETRY_AFTER))
            }
            Ok(TieredAttempt::InProgress { lease_left, held_by }) => {
                let detail = "its first request is being handled";
                // Not the rest of the lease, which is renewed and says nothing about the handler.
                let takes = self.durations.typical(kind).unwrap_or(RETRY_AFTER);
                let refusal = ProblemDetails::new(Problem::InProgress, detail).retry_after(takes.min(lease_left));
                Err(ProblemDetails { held_by: held_by.filter(|_| self.options.names_holder), ..refusal })
            }
            Err(error) => Err(self.store_refusal(&error)),
        }
    }
}
