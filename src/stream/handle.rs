//! One message in its handler, as a task: the lease is renewed, a panic is a failure, and a stop ends it.

use super::delivery::{Delivery, Handler, Handling};
use super::stats::Counts;
use crate::store::Store;
use crate::{ClaimError, TieredClaim};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How a message left its handler.
pub(super) enum Ended<S: Store> {
    /// It is handled, and its claim is to be completed.
    Done(Option<TieredClaim<S>>),
    /// It failed, and so did its claim.
    Failed { why: String, panicked: bool },
    /// It failed for the last time. The claim is held until the message is put aside.
    Exhausted { why: String, panicked: bool, claim: Option<TieredClaim<S>> },
    /// Somebody else has the id.
    Lost,
    /// It was told to stop, and the claim is released.
    Stopped,
}

/// What is to be handled.
pub(super) struct Work<S: Store, M> {
    pub(super) handler: Handler<M>,
    pub(super) delivery: Delivery<M>,
    pub(super) claim: Option<TieredClaim<S>>,
    /// For how long nobody gets the id after a failure.
    pub(super) retry_after: Duration,
    pub(super) stop: oneshot::Receiver<()>,
    pub(super) counts: Arc<Counts>,
}

impl<S: Store, M: Send + Sync + 'static> Work<S, M> {
    pub(super) async fn run(mut self) -> Ended<S> {
        let (is_last, begun) = (self.delivery.is_last, Instant::now());
        let (handler, delivery) = (self.handler, self.delivery);
        let stopped = {
            // The handler is called where its panics are caught, and dropped before the claim ends.
            let attempt = delivery.attempt;
            let handling = self.counts.in_a_span(async move { handler(delivery).await }, attempt);
            let mut handling = Caught(Box::pin(handling));
            let mut kept = pin!(keep(self.claim.as_mut()));
            let mut stop = pin!(self.stop);
            std::future::poll_fn(move |cx| {
                // First, since one that must not begin any more is told so before its handler is called.
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(Ended::Stopped));
                }
                if kept.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(Ended::Lost));
                }
                Pin::new(&mut handling).poll(cx).map(Ok)
            })
            .await
        };
        self.counts.meters.handled(begun.elapsed());
        match (stopped, self.claim) {
            (Ok(Ok(Ok(()))), claim) => Ended::Done(claim),
            (Ok(failed), claim) => {
                let (why, panicked) = match failed {
                    Ok(error) => (error.err().unwrap_or_default(), false),
                    Err(panic) => (message_of(panic.as_ref()), true),
                };
                match (is_last, claim) {
                    (true, claim) => Ended::Exhausted { why, panicked, claim },
                    (false, Some(claim)) => {
                        // If that fails, the lease ends by itself, and the message comes again all the same.
                        let _ = claim.fail(self.retry_after).await;
                        Ended::Failed { why, panicked }
                    }
                    (false, None) => Ended::Failed { why, panicked },
                }
            }
            (Err(ended), Some(claim)) => {
                // The same; and of a claim that was lost there is nothing to release.
                let _ = claim.release().await;
                ended
            }
            (Err(ended), None) => ended,
        }
    }
}

/// Renews a claim, well before its lease ends each time, until it is lost.
async fn keep<S: Store>(claim: Option<&mut TieredClaim<S>>) {
    let Some(claim) = claim else { return std::future::pending().await };
    let lease = claim.lease();
    loop {
        tokio::time::sleep(lease / 3).await;
        // What the store could not do is tried again, and completing says in the end whether that was enough.
        if let Err(ClaimError::LostLease(_)) = claim.renew(lease).await {
            return;
        }
    }
}

/// A handler's future, whose panic is an answer.
struct Caught(Handling);

impl Future for Caught {
    type Output = Result<Result<(), String>, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // After a panic it is polled no more: nobody sees what it left half done.
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

/// What a panic said.
pub(super) fn message_of(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", said.unwrap_or("without words"))
}
