//! The future that waits until data is durable.

use super::commit::Shared;
use crate::error::JournalError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

impl Shared {
    pub(crate) fn flush_async(self: &Arc<Self>) -> Flush {
        Flush { journal: Ok(Arc::clone(self)), target: self.want(), waker: None }
    }
}

/// A future that is ready when everything is durable that was accepted before
/// [`flush_async`](crate::JournalHandle::flush_async) was called. Needs no particular executor.
#[must_use = "nothing is known to be durable before this is ready"]
pub struct Flush {
    pub(in crate::journal) journal: Result<Arc<Shared>, JournalError>,
    pub(in crate::journal) target: u64,
    /// The number under which it waits.
    pub(in crate::journal) waker: Option<u64>,
}

impl Flush {
    /// Returns a future that is ready with an error.
    pub(crate) fn failed(error: JournalError) -> Self {
        Flush { journal: Err(error), target: 0, waker: None }
    }
}

impl Future for Flush {
    type Output = Result<(), JournalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = match &self.journal {
            Ok(shared) => Arc::clone(shared),
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        shared.must_be_here()?;
        let mut state = shared.lock();
        let outcome = state.outcome(self.target);
        if let Poll::Ready(Ok(())) = outcome {
            drop(state);
            return Poll::Ready(shared.verify());
        }
        if outcome.is_pending() {
            let number = *self.waker.get_or_insert_with(|| {
                state.next_waker += 1;
                state.next_waker
            });
            state.wakers.insert(number, context.waker().clone());
        }
        outcome
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        if let (Ok(shared), Some(number)) = (&self.journal, self.waker)
            && shared.must_be_here().is_ok()
        {
            shared.lock().wakers.remove(&number);
        }
    }
}

impl std::fmt::Debug for Flush {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flush").field("target", &self.target).finish_non_exhaustive()
    }
}
