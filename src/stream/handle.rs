//! One message in its handler, as a task: the lease is renewed, a panic is a failure, and a stop ends it.

use super::delivery::{Delivery, Handler};
use super::stats::Counts;
use crate::store::Store;
use crate::{TieredClaim, unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
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
            let mut handling = pin!(unwind::caught(handling));
            let mut lost = pin!(lost(self.claim.as_mut()));
            let mut stop = pin!(self.stop);
            std::future::poll_fn(move |cx| {
                // First, since one that must not begin any more is told so before its handler is called.
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(Ended::Stopped));
                }
                if lost.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(Ended::Lost));
                }
                handling.as_mut().poll(cx).map(Ok)
            })
            .await
        };
        self.counts.meters.handled(begun.elapsed());
        match (stopped, self.claim) {
            (Ok(Ok(Ok(()))), claim) => Ended::Done(claim),
            (Ok(failed), claim) => {
                let (why, panicked) = match failed {
                    Ok(error) => (error.err().unwrap_or_default(), false),
                    Err(panic) => (format!("the handler panicked: {}", unwind::said(&*panic)), true),
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

/// Until the claim, if there is one, is lost.
async fn lost<S: Store>(claim: Option<&mut TieredClaim<S>>) {
    match claim {
        Some(claim) => claim.keep().await,
        None => std::future::pending().await,
    }
}
