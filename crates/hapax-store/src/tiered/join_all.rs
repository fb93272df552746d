//! Waits for several futures.

use std::future::poll_fn;
use std::task::Poll;

/// Waits for all of these concurrently.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut waits: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut pending = false;
        for (future, output) in waits.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(ended) => *output = Some(ended),
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    waits.into_iter().filter_map(|(_, output)| output).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_are_waited_for_at_a_time_and_come_in_order() {
        let begun = tokio::time::Instant::now();
        let waits = [3, 1, 2].map(|seconds| async move {
            tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
            seconds
        });
        assert_eq!(join_all(waits).await, [3, 1, 2]);
        assert_eq!(begun.elapsed().as_secs(), 3);
        assert!(join_all(Vec::<std::future::Ready<()>>::new()).await.is_empty());
    }
}
