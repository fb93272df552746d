//! Work that goes on without its caller.

use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

/// Returns the output of the work, which goes on as a task of the runtime if the caller is dropped.
/// (Not from the start: waking another thread takes longer than most of the work here.)
pub async fn to_its_end<F: Future<Output: Send + 'static> + Send + 'static>(work: F, runtime: Handle) -> F::Output {
    Detached { work: Some(Box::pin(work)), runtime }.await
}

struct Detached<F: Future<Output: Send + 'static> + Send + 'static> {
    /// `None` when it is done.
    work: Option<Pin<Box<F>>>,
    runtime: Handle,
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Future for Detached<F> {
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

impl<F: Future<Output: Send + 'static> + Send + 'static> Drop for Detached<F> {
    fn drop(&mut self) {
        // A future that has panicked cannot go on.
        if let Some(work) = self.work.take()
            && !std::thread::panicking()
        {
            self.runtime.spawn(work);
        }
    }
}
