//! The handler under its claim. If its client goes, it goes on in a task of its own: it is
//! finished, and its end recorded, all the same.

use super::body::{self, Body, Read, Reading};
use super::key::Begun;
use super::options::{ANSWER_WITHIN, refuses_status};
use super::shared::Shared;
use super::stats::Event;
use crate::limits::durations::RequestKind;
use crate::limits::permits::Permit;
use crate::limits::reservations::Reservation;
use crate::response::headers;
use crate::response::problem::Problem;
use crate::response::problem_details::ProblemDetails;
use crate::response::record::{self, Content, StoredResponse};
use bytes::Bytes;
use hapax_store::unwind::{Cut, Panic, within};
use hapax_store::{NotCompleted, Store, TieredClaim, detached};
use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{HeaderMap, Request, Response};
use http_body::Body as HttpBody;
use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tower_service::Service;

/// A body that may go from task to task.
pub(super) trait Sent: HttpBody<Data = Bytes, Error: Send> + Send + 'static {}

impl<B: HttpBody<Data = Bytes, Error: Send> + Send + 'static> Sent for B {}

/// A service as the layer calls it.
pub(super) trait Handles<B: Sent, R: Sent>:
    Service<Request<Body<B>>, Response = Response<R>, Error: Send + 'static, Future: Send + 'static> + Send + 'static
{
}

impl<B: Sent, R: Sent, Inner> Handles<B, R> for Inner where
    Inner: Service<Request<Body<B>>, Response = Response<R>, Error: Send + 'static, Future: Send + 'static>
        + Send
        + 'static
{
}

/// A request that has claimed its key, on its way to the handler.
pub(super) struct ClaimedRequest<S: Store, B: HttpBody> {
    pub(super) claim: TieredClaim<S>,
    pub(super) request: Request<Body<B>>,
    /// The permit to be in flight: given back when all is recorded.
    pub(super) permit: Permit,
    /// The charge for the stored key.
    pub(super) reservation: Option<Reservation>,
    pub(super) begun: Begun,
    pub(super) kind: RequestKind,
}

/// The end of a handler.
enum Ended<R: HttpBody, E> {
    /// It has a response that is stored.
    Whole(Parts, Read),
    /// It has a response that is not stored: it is too large, or has no end to wait for.
    PassedOn(Response<Body<R>>),
    /// It has a response that does not count: the next request with the key is handled.
    Released(Response<Body<R>>),
    Error(E),
    Late,
    Panic(Panic),
}

/// Runs the handler, to its end even if its caller is dropped.
///
/// # Panics
///
/// If the handler does: a caller sees the same as without the layer.
pub(super) async fn to_its_end<Inner, S, B, R>(
    shared: Arc<Shared<S>>,
    inner: Inner,
    request: ClaimedRequest<S, B>,
) -> Result<Response<Body<R>>, Inner::Error>
where
    Inner: Handles<B, R>,
    S: Store,
    B: Sent,
    R: Sent,
{
    let runtime = shared.runtime();
    let work = async move { run(&shared, inner, request).await };
    #[cfg(feature = "tracing")]
    let work = tracing::Instrument::in_current_span(work);
    detached::to_its_end(work, runtime).await.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs the handler, and ends its claim, before the client gets the response, unless the store is
/// unavailable.
async fn run<Inner, S, B, R>(
    shared: &Arc<Shared<S>>,
    inner: Inner,
    claimed: ClaimedRequest<S, B>,
) -> Result<Result<Response<Body<R>>, Inner::Error>, Panic>
where
    Inner: Handles<B, R>,
    S: Store,
    B: Sent,
    R: Sent,
{
    let ClaimedRequest { mut claim, request, permit, reservation, begun, kind } = claimed;
    // Held until the client has them.
    let mut bytes = permit.bytes();
    let began = Instant::now();
    // The handler cannot be undone, and has its token for the case that the claim is lost. Its
    // completion will be refused.
    let handled = within(shared.options.handler_timeout, handle(shared, inner, request, &mut bytes, &begun));
    let ended = claim.keep_while(handled).await.unwrap_or_else(|cut| match cut {
        Cut::Panicked(panic) => Ended::Panic(panic),
        Cut::TimedOut => Ended::Late,
    });
    if matches!(ended, Ended::Whole(..) | Ended::PassedOn(_) | Ended::Late) {
        shared.durations.learn(kind, began.elapsed());
    }
    match ended {
        Ended::Whole(parts, body) => {
            let stored = shared.stored(&parts, &body);
            if stored.content.is_none() {
                shared.counters.add(Event::NotKept, 1);
            }
            shared.record(claim, &stored, permit, reservation).await;
            Ok(Ok(Response::from_parts(parts, Body::from(body).holding(bytes))))
        }
        Ended::PassedOn(response) => {
            let stored = StoredResponse { status: response.status(), gone_for: shared.options.gone_for, content: None };
            shared.counters.add(Event::NotKept, 1);
            shared.record(claim, &stored, permit, reservation).await;
            Ok(Ok(response.map(|body| body.holding(bytes))))
        }
        Ended::Released(response) => shared.released(claim, permit, Ok(Ok(response))).await,
        Ended::Error(error) => shared.released(claim, permit, Ok(Err(error))).await,
        Ended::Panic(panic) => shared.released(claim, permit, Err(panic)).await,
        Ended::Late => {
            let late = format!("not done within {:?}", shared.options.handler_timeout);
            let response = shared.refuse(ProblemDetails::new(Problem::HandlerTimeout, late));
            shared.released(claim, permit, Ok(Ok(response))).await
        }
    }
}

impl<S: Store> Shared<S> {
    /// Returns the stored part of a response: its status only, if the rest is too large.
    fn stored(&self, parts: &Parts, body: &Read) -> StoredResponse {
        let has_content = record::has_content(parts.status);
        let trailers = body.trailers.clone().filter(|_| has_content).unwrap_or_default();
        let content = Content {
            headers: headers::kept(parts.headers.clone()),
            trailers: headers::kept_trailers(trailers),
            body: if has_content { body.data.clone() } else { Bytes::new() },
        };
        let fits = content.bytes() <= self.options.max_body_bytes && content.has_few_fields();
        StoredResponse { status: parts.status, gone_for: self.options.gone_for, content: fits.then_some(content) }
    }

    /// Returns the runtime on which work without a waiting caller goes on.
    fn runtime(&self) -> Handle {
        Handle::try_current().unwrap_or_else(|_| self.runtime.clone())
    }

    /// Records the completed request.
    async fn record(
        self: &Arc<Self>,
        claim: TieredClaim<S>,
        stored: &StoredResponse,
        permit: Permit,
        reservation: Option<Reservation>,
    ) {
        let (shared, record) = (Arc::clone(self), record::encode(stored));
        if let Some(reservation) = reservation {
            reservation.keep(record.len());
        }
        let (bytes, len) = (permit.bytes(), record.len());
        self.settle(bytes, len, async move {
            shared.completed(claim.complete_with(record).await);
            drop(permit);
        })
        .await;
    }

    /// Ends a claim. If the store does not answer, that goes on without the caller, and holds a
    /// permit for the bytes that it needs.
    async fn settle(
        self: &Arc<Self>,
        mut bytes: Permit,
        len: usize,
        ending: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut ending = Box::pin(ending);
        if tokio::time::timeout(ANSWER_WITHIN, &mut ending).await.is_ok() {
            return;
        }
        self.counters.add(Event::AnsweredEarly, 1);
        bytes.grow_anyway(len);
        let ending = async move {
            ending.await;
            drop(bytes);
        };
        #[cfg(feature = "tracing")]
        let ending = tracing::Instrument::in_current_span(ending);
        self.runtime().spawn(ending);
    }

    /// Counts the result of a completion. The client gets the response either way: the work is
    /// done, and a client with another answer would have it done again.
    fn completed(&self, completed: Result<(), NotCompleted<S>>) {
        match completed {
            Ok(()) => self.counters.add(Event::Executed, 1),
            Err(error) => {
                self.counters.add(Event::Unrecorded, 1);
                #[cfg(feature = "tracing")]
                tracing::error!(%error, "a request was handled, but not recorded: a retry may be handled again");
                let _ = error;
            }
        }
    }

    async fn released<T>(self: &Arc<Self>, claim: TieredClaim<S>, permit: Permit, outcome: T) -> T {
        self.counters.add(Event::Released, 1);
        self.settle(permit.bytes(), 0, async move {
            // If that fails, the lease ends the claim.
            let _ = claim.release().await;
            drop(permit);
        })
        .await;
        outcome
    }
}

async fn handle<Inner, S, B, R>(
    shared: &Shared<S>,
    mut inner: Inner,
    request: Request<Body<B>>,
    bytes: &mut Permit,
    begun: &Begun,
) -> Ended<R, Inner::Error>
where
    Inner: Handles<B, R>,
    S: Store,
    B: Sent,
    R: Sent,
{
    let response = match inner.call(request).await {
        Ok(response) => response,
        Err(error) => return Ended::Error(error),
    };
    // An interim response cannot be sent again.
    if response.status().is_informational() || !(shared.options.stores)(response.status()) {
        return Ended::Released(response.map(Body::untouched));
    }
    if !begun.is_set() && refuses_status(response.status()) {
        shared.counters.add(Event::NotBegun, 1);
        return Ended::Released(response.map(Body::untouched));
    }
    if is_event_stream(response.headers()) {
        return Ended::PassedOn(response.map(Body::untouched));
    }
    let (parts, body) = response.into_parts();
    // The answer to completed work is sent, even beyond the limit.
    let counted = |more| -> Result<(), Infallible> {
        bytes.grow_anyway(more);
        Ok(())
    };
    match body::read(body, shared.options.max_body_bytes, counted).await {
        Reading::Whole(body) => Ended::Whole(parts, body),
        Reading::TooLarge(body) => Ended::PassedOn(Response::from_parts(parts, body)),
        // A handler whose response breaks off has failed.
        Reading::Failed(body) => Ended::Released(Response::from_parts(parts, body)),
        Reading::Full(never) => match never {},
    }
}

/// Returns true for server-sent events, which go on for as long as the client listens.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case("text/event-stream"))
}
