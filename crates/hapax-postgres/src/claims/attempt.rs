//! One attempt of a handler or a publisher: it has a limit, may panic, and may give up.

use crate::BoxError;
use hapax_message::{GiveUp, Later, causes};
use hapax_store::unwind::{self, Cut};
use std::time::Duration;

/// The cause for which an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The attempt returned an error.
    Error,
    /// The attempt returned an error that says that another attempt cannot help.
    GaveUp,
    /// The attempt returned an error that says that it was none, and perhaps after how long another
    /// one is to be made.
    Later(Option<Duration>),
    Panic,
    TimeOut,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub cause: Cause,
    pub error: String,
}

impl Failed {
    pub(crate) fn new(cause: Cause, error: impl Into<String>) -> Self {
        Failed { cause, error: error.into() }
    }

    /// Returns true if the attempt ended by itself, so that it has left nothing half done.
    pub(crate) fn is_reported(&self) -> bool {
        matches!(self.cause, Cause::Error | Cause::GaveUp | Cause::Later(_))
    }

    /// Returns the text of an error, with its causes: drivers' errors say little without them.
    pub(crate) fn of(error: &BoxError) -> Self {
        let says = |error: &(dyn std::error::Error + 'static)| match error.downcast_ref::<Later>() {
            Some(later) => Some(Cause::Later(later.wait())),
            None => error.is::<GiveUp>().then_some(Cause::GaveUp),
        };
        let cause = causes(&**error).find_map(says).unwrap_or(Cause::Error);
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        Failed::new(cause, causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}")))
    }
}

/// Runs an attempt. Returns its result, or why it failed. The caller discards what a panic may have
/// left half done: its transaction, or its message.
///
/// A function that is not `async` may panic before its future exists: it is called within the
/// attempt, `limited(limit, async { handle(message).await })`.
pub(crate) async fn limited<T>(limit: Duration, attempt: impl Future<Output = T>) -> Result<T, Failed> {
    unwind::within(limit, attempt).await.map_err(|cut| match cut {
        Cut::Panicked(panic) => Failed::new(Cause::Panic, format!("it panicked: {}", unwind::said(&*panic))),
        Cut::TimedOut => Failed::new(Cause::TimeOut, format!("it took longer than {limit:?}")),
    })
}

/// Runs an attempt that may report a failure itself.
pub(crate) async fn run<T>(limit: Duration, attempt: impl Future<Output = Result<T, BoxError>>) -> Result<T, Failed> {
    limited(limit, attempt).await?.map_err(|error| Failed::of(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[tokio::test(start_paused = true)]
    async fn each_way_to_fail_says_so() {
        let second = Duration::from_secs(1);
        let failed = |cause, error: &str| Err::<(), _>(Failed::new(cause, error));
        assert_eq!(run(second, async { Ok(()) }).await, Ok(()));
        assert_eq!(run(second, async { Err("no".into()) }).await, failed(Cause::Error, "no"));
        let hopeless = async { Err(GiveUp::because("gone").into()) };
        assert_eq!(run(second, hopeless).await, failed(Cause::GaveUp, "gone"));
        let away = async { Err(Later::because(GiveUp::because("away")).after(second).into()) };
        assert_eq!(run(second, away).await, failed(Cause::Later(Some(second)), "away"));
        let caused = io::Error::other(StoreErrorLike(io::Error::other("cable")));
        assert_eq!(run(second, async { Err(caused.into()) }).await, failed(Cause::Error, "outer: cable"));
        let panics = run(second, async { panic!("at {}", 1) }).await;
        assert_eq!(panics, failed(Cause::Panic, "it panicked: at 1"));
        let early = |has_future: bool| {
            assert!(has_future, "early");
            std::future::ready(Ok(()))
        };
        assert_eq!(run(second, async { early(false).await }).await, failed(Cause::Panic, "it panicked: early"));
        let dropped = || async {
            let _grenade = Grenade;
            std::future::pending().await
        };
        assert_eq!(run(second, dropped()).await, failed(Cause::Panic, "it panicked: dropped"));
        assert_eq!(run(second, std::future::pending()).await, failed(Cause::TimeOut, "it took longer than 1s"));
    }

    struct Grenade;

    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[derive(Debug)]
    struct StoreErrorLike(io::Error);

    impl std::fmt::Display for StoreErrorLike {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("outer")
        }
    }

    impl std::error::Error for StoreErrorLike {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
}
