//! Panics of code that is not ours, as values.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

pub type Panic = Box<dyn Any + Send>;

/// Returns the result of some work, or the value that it panicked with. A caller that catches a
/// panic throws away the state that the work may have left half changed.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panic> {
    let mut work = pin!(work);
    // What has panicked is not polled again.
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// The reason for which work of others has no result.
#[derive(Debug)]
pub enum Cut {
    Panicked(Panic),
    TimedOut,
}

/// Returns the result of some work within a time. The work may panic even when it is dropped, at
/// its end or before.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Cut> {
    let mut work = Box::pin(caught(work));
    let ended = tokio::time::timeout(limit, &mut work).await;
    catch_unwind(AssertUnwindSafe(|| drop(work))).map_err(Cut::Panicked)?;
    ended.map_err(|_| Cut::TimedOut)?.map_err(Cut::Panicked)
}

/// Returns the message of a panic.
pub fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("nothing")
}
