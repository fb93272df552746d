//! The handler under its claim. If its client goes, it goes on in a task of its own: it is finished, and its end recorded, all the same.

use super::body::{self, Body, Read, Reading};
use super::headers;
use super::layer::Shared;
use super::problem::{Problem, Refusal};
use super::record::{self, Content, Kept};
use super::room::Permit;
use crate::store::Store;
use crate::unwind::{Panic, caught};
use crate::{NotCompleted, TieredClaim};
use bytes::Bytes;
use http::response::Parts;
use http::{Request, Response};
use http_body::Body as HttpBody;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
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

/// How a handler ended.
enum Ended<R: HttpBody, E> {
    /// With a response that is kept.
    Whole(Parts, Read),
    /// With one that is too large for that.
    TooLarge(Response<Body<R>>),
    /// With one that does not count: the next request with the key is handled.
    Released(Response<Body<R>>),
    Error(E),
    Late,
    Panic(Panic),
}

/// Runs the handler, to its end also if whoever waits for it is dropped.
///
/// # Panics
///
/// If the handler does: what is outside sees what it would without the layer.
pub(super) async fn to_its_end<Inner, S, B, R>(
    shared: Arc<Shared<S>>,
    claim: TieredClaim<S>,
    inner: Inner,
    request: Request<Body<B>>,
    room: Permit,
) -> Result<Response<Body<R>>, Inner::Error>
where
    Inner: Handles<B, R>,
    S: Store,
    B: Sent,
    R: Sent,
{
    let runtime = Handle::try_current().unwrap_or_else(|_| shared.runtime.clone());
    let goes_on = runtime.clone();
    let work = async move {
        // Given back when the response is recorded; its bytes are held until the client has them.
        let bytes = room.bytes();
        run(&shared, claim, inner, request, bytes, (room, goes_on)).await
    };
    #[cfg(feature = "tracing")]
    let work = tracing::Instrument::in_current_span(work);
    let work = Outlives { work: Some(Box::pin(work)), runtime };
    work.await.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Work that goes on as a task if it is dropped on the way. (Not from the start: waking another thread for each request takes longer than most of what is
/// done here.)
struct Outlives<F: Future<Output: Send + 'static> + Send + 'static> {
    /// None when it is done.
    work: Option<Pin<Box<F>>>,
    runtime: Handle,
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Future for Outlives<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Drop for Outlives<F> {
    fn drop(&mut self) {
        // What has panicked cannot go on.
        if let Some(work) = self.work.take()
            && !std::thread::panicking()
        {
            self.runtime.spawn(work);
        }
    }
}

/// How long a client waits until its response is recorded. If the store is away for longer, it is
/// told what was done, and the completion goes on for as long as its lease is.
const RECORDING: Duration = Duration::from_secs(1);

/// Runs the handler, and ends its claim, before anybody is told, unless the store is away.
async fn run<Inner, S, B, R>(
    shared: &Arc<Shared<S>>,
    mut claim: TieredClaim<S>,
    inner: Inner,
    request: Request<Body<B>>,
    mut bytes: Permit,
    goes_on: (Permit, Handle),
) -> Result<Result<Response<Body<R>>, Inner::Error>, Panic>
where
    Inner: Handles<B, R>,
    S: Store,
    B: Sent,
    R: Sent,
{
    let handled = under(&mut claim, caught(handle(shared, inner, request, &mut bytes)));
    let ended = match tokio::time::timeout(shared.options.handler_timeout, handled).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(panic)) => Ended::Panic(panic),
        Err(_) => Ended::Late,
    };
    match ended {
        Ended::Whole(parts, body) => {
            let kept = shared.kept(&parts, &body);
            if kept.content.is_none() {
                shared.counters.not_kept.count();
            }
            record(Arc::clone(shared), claim, &kept, goes_on).await;
            Ok(Ok(Response::from_parts(parts, Body::from(body).holding(bytes))))
        }
        Ended::TooLarge(response) => {
            let kept = Kept { status: response.status(), content: None };
            shared.counters.not_kept.count();
            record(Arc::clone(shared), claim, &kept, goes_on).await;
            Ok(Ok(response.map(|body| body.holding(bytes))))
        }
        Ended::Released(response) => shared.released(claim, Ok(Ok(response))).await,
        Ended::Error(error) => shared.released(claim, Ok(Err(error))).await,
        Ended::Panic(panic) => shared.released(claim, Err(panic)).await,
        Ended::Late => {
            let late = format!("not done within {:?}", shared.options.handler_timeout);
            let response = shared.refuse(&Refusal::new(Problem::HandlerTimeout, late));
            shared.released(claim, Ok(Ok(response))).await
        }
    }
}

/// Completes the claim. The request counts as one in flight until that is done.
async fn record<S: Store>(
    shared: Arc<Shared<S>>,
    claim: TieredClaim<S>,
    kept: &Kept,
    (room, runtime): (Permit, Handle),
) {
    let completing = claim.complete_with(record::encode(kept));
    let mut recording = Box::pin(async move {
        shared.completed(completing.await);
        drop(room);
    });
    if tokio::time::timeout(RECORDING, &mut recording).await.is_err() {
        runtime.spawn(recording);
    }
}

impl<S: Store> Shared<S> {
    /// Returns what is kept of a response: its status only, if the rest is too large.
    fn kept(&self, parts: &Parts, body: &Read) -> Kept {
        let keeps = &*self.options.keeps_header;
        let has_content = record::has_content(parts.status);
        let trailers = body.trailers.clone().filter(|_| has_content).unwrap_or_default();
        let content = Content {
            headers: headers::kept(parts.headers.clone(), keeps),
            trailers: headers::kept_trailers(trailers, keeps),
            body: if has_content { body.data.clone() } else { Bytes::new() },
        };
        let fits = content.bytes() <= self.options.max_response_bytes && content.has_few_fields();
        Kept { status: parts.status, content: fits.then_some(content) }
    }

    /// The client gets the response either way: what was done is done, and a client that is told
    /// otherwise would have it done again.
    fn completed(&self, completed: Result<(), NotCompleted<S>>) {
        match completed {
            Ok(()) => self.counters.executed.count(),
            Err(error) => {
                self.counters.unrecorded.count();
                #[cfg(feature = "tracing")]
                tracing::error!(%error, "a request was handled, but not recorded: a retry may be handled again");
                let _ = error;
            }
        }
    }

    async fn released<T>(&self, claim: TieredClaim<S>, outcome: T) -> T {
        self.counters.released.count();
        // If that fails, the lease ends it.
        let _ = claim.release().await;
        outcome
    }
}

async fn handle<Inner, S, B, R>(
    shared: &Shared<S>,
    mut inner: Inner,
    request: Request<Body<B>>,
    bytes: &mut Permit,
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
    // An interim response is none that could be sent again.
    if response.status().is_informational() || !(shared.options.stores)(response.status()) {
        return Ended::Released(response.map(Body::untouched));
    }
    let (parts, body) = response.into_parts();
    // What was done is told, whether there is room for it or not.
    let counted = |more| -> Result<(), Infallible> {
        bytes.grow_anyway(more);
        Ok(())
    };
    match body::read(body, shared.options.max_response_bytes, counted).await {
        Reading::Whole(body) => Ended::Whole(parts, body),
        Reading::TooLarge(body) => Ended::TooLarge(Response::from_parts(parts, body)),
        // A handler whose response breaks off has failed.
        Reading::Failed(body) => Ended::Released(Response::from_parts(parts, body)),
        Reading::Full(never) => match never {},
    }
}

/// What the work comes to, while its claim is kept.
async fn under<T, S: Store>(claim: &mut TieredClaim<S>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut kept = pin!(async {
        claim.keep().await;
        // The handler cannot be undone, and is told its token for this. Its completion will be refused.
        pending::<()>().await
    });
    poll_fn(|context| {
        let done = work.as_mut().poll(context);
        if done.is_pending() {
            let _never = kept.as_mut().poll(context);
        }
        done
    })
    .await
}
