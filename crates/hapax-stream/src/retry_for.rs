//! Tries of a broker's call that fails for a while.

use hapax::seam::random;
use hapax_store::back_off::BackOff;
use std::time::Duration;
use tokio::time::Instant;

const BACK_OFF: BackOff = BackOff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// Calls until the answer is no error that is worth another try, for no longer than `limit`. It is
/// for [sources](super::Source): the error of a source ends the run, and a lost connection should
/// not.
///
/// The wait after a failure is up to 50 ms, twice as long each time, up to 5 s, and shortened at
/// random by up to a half. A call gets no time-out here: give it one of its own.
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let mut answers = [Err(ErrorKind::ConnectionReset), Ok("an answer")].into_iter();
/// let call = || std::future::ready(answers.next().unwrap_or(Err(ErrorKind::TimedOut)).map_err(Error::from));
/// let is_transient = |error: &Error| error.kind() == ErrorKind::ConnectionReset;
/// let answer = hapax_stream::retry_for(Duration::from_secs(60), is_transient, call).await?;
/// assert_eq!(answer, "an answer");
/// # Ok::<(), Error>(())
/// # })?;
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
///
/// The first error that is not worth another try, or the last one within the limit.
pub async fn retry_for<T, E, F>(
    limit: Duration,
    is_transient: impl Fn(&E) -> bool,
    mut call: impl FnMut() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let (began, mut failures) = (Instant::now(), 0);
    loop {
        let error = match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        failures += 1;
        let wait = BACK_OFF.after(failures, random::any());
        if !is_transient(&error) || began.elapsed() + wait > limit {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of calls, the time that they took, and the result.
    async fn tries(limit: Duration, mut fails: u32, is_transient: bool) -> (u32, Duration, Result<(), u32>) {
        let (began, mut calls) = (Instant::now(), 0);
        let call = || {
            calls += 1;
            let answer = if fails == 0 { Ok(()) } else { Err(calls) };
            fails = fails.saturating_sub(1);
            std::future::ready(answer)
        };
        let result = retry_for(limit, |_| is_transient, call).await;
        (calls, began.elapsed(), result)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_tried_until_it_succeeds_or_the_limit_is_reached() {
        let minute = Duration::from_secs(60);
        assert_eq!(tries(minute, 0, true).await, (1, Duration::ZERO, Ok(())));
        let (calls, took, result) = tries(minute, 5, true).await;
        assert_eq!((calls, result), (6, Ok(())));
        // 50, 100, 200, 400 and 800 ms, or down to a half.
        assert!((Duration::from_millis(770)..Duration::from_millis(1_560)).contains(&took), "{took:?}");
        let (calls, took, result) = tries(minute, u32::MAX, true).await;
        assert!(result == Err(calls) && (18..40).contains(&calls), "{calls} calls, {result:?}");
        assert!((minute - Duration::from_secs(5)..=minute).contains(&took), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_final_error_is_not_tried_again() {
        assert_eq!(tries(Duration::from_secs(60), 5, false).await, (1, Duration::ZERO, Err(1)));
        assert_eq!(tries(Duration::ZERO, 5, true).await, (1, Duration::ZERO, Err(1)));
    }
}
