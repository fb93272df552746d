//! Several futures at once, some of which may never end.

use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// Waits for the results of all; but once one has succeeded, only this much longer for the others.
/// Those that are given up have no result.
pub(crate) async fn join_without_stragglers<T: Send + 'static, E: Send + 'static>(
    parts: impl Iterator<Item = impl Future<Output = Result<T, E>> + Send + 'static>,
    patience: Duration,
) -> Vec<Option<Result<T, E>>> {
    let (mut under_way, mut outcomes) = (JoinSet::new(), Vec::new());
    for (place, part) in parts.enumerate() {
        under_way.spawn(async move { (place, part.await) });
        outcomes.push(None);
    }
    let mut until: Option<Instant> = None;
    loop {
        let ended = match until {
            None => under_way.join_next().await,
            Some(until) => match timeout_at(until, under_way.join_next()).await {
                Ok(ended) => ended,
                Err(_late) => return outcomes,
            },
        };
        match ended {
            Some(Ok((place, outcome))) => {
                if outcome.is_ok() && until.is_none() {
                    until = Some(Instant::now() + patience);
                }
                outcomes[place] = Some(outcome);
            }
            Some(Err(_)) => {}
            None => return outcomes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(work);
    }

    /// Ends after this many milliseconds.
    async fn after(ms: u64, outcome: Result<u64, u64>) -> Result<u64, u64> {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        outcome
    }

    #[test]
    fn the_silent_are_waited_for_a_while_longer_than_the_first_that_succeeds() {
        block_on(async {
            let patience = Duration::from_millis(500);
            let began = Instant::now();
            let parts = [after(100, Ok(1)), after(3_600_000, Ok(2)), after(10, Err(3)), after(590, Ok(4))];
            assert_eq!(
                join_without_stragglers(parts.into_iter(), patience).await,
                [Some(Ok(1)), None, Some(Err(3)), Some(Ok(4))]
            );
            assert_eq!(began.elapsed(), Duration::from_millis(600));

            // As long as none has succeeded, none counts as slower than the others.
            let parts = [after(2_000, Err(1)), after(10, Err(2))];
            assert_eq!(join_without_stragglers(parts.into_iter(), patience).await, [Some(Err(1)), Some(Err(2))]);
            assert_eq!(join_without_stragglers(vec![after(0, Ok(0))].into_iter().skip(1), patience).await, []);
        });
    }
}
