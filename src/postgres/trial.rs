//! One attempt of a handler or a publisher: it has a limit, and may panic.

use super::Failure;
use crate::unwind;
use std::time::Duration;

/// What it came to; otherwise why it failed. Whoever tries throws away what a panic may have left half done: its
/// transaction, or its message.
pub(super) async fn within(limit: Duration, attempt: impl Future<Output = Result<(), Failure>>) -> Result<(), String> {
    match tokio::time::timeout(limit, unwind::caught(attempt)).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(with_causes(&*error)),
        Ok(Err(panic)) => Err(format!("it panicked: {}", unwind::said(&*panic))),
        Err(_) => Err(format!("it took longer than {limit:?}")),
    }
}

/// Drivers' errors say little without their causes.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[tokio::test(start_paused = true)]
    async fn each_way_to_fail_says_so() {
        let second = Duration::from_secs(1);
        assert_eq!(within(second, async { Ok(()) }).await, Ok(()));
        assert_eq!(within(second, async { Err("no".into()) }).await, Err("no".into()));
        let caused = io::Error::other(StoreErrorLike(io::Error::other("cable")));
        assert_eq!(within(second, async { Err(caused.into()) }).await, Err("outer: cable".into()));
        let panics = within(second, async { panic!("at {}", 1) }).await;
        assert_eq!(panics, Err("it panicked: at 1".into()));
        assert_eq!(within(second, std::future::pending()).await, Err("it took longer than 1s".into()));
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
