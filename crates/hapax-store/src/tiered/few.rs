//! One or many: most callers ask about one id, and that should not take a vector.

use std::future::poll_fn;
use std::task::Poll;
use std::vec;

/// One thing, or a vector of them.
#[derive(Debug)]
pub(super) enum Few<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Few<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            Few::One(_) => 1,
            Few::Many(all) => all.len(),
        }
    }

    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Few::One(one) => std::slice::from_ref(one),
            Few::Many(all) => all,
        }
    }

    /// Adds one more.
    pub(super) fn with(self, more: T) -> Self {
        match self {
            Few::One(one) => Few::Many(vec![one, more]),
            Few::Many(all) if all.is_empty() => Few::One(more),
            Few::Many(mut all) => {
                all.push(more);
                Few::Many(all)
            }
        }
    }

    /// Takes this many items, as one or as many.
    pub(super) fn take(count: usize, from: &mut impl Iterator<Item = T>) -> Self {
        if count == 1
            && let Some(one) = from.next()
        {
            return Few::One(one);
        }
        Few::Many(from.take(count).collect())
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        match self {
            Few::One(one) => Some(one).into_iter().chain(Vec::new()),
            Few::Many(all) => None.into_iter().chain(all),
        }
    }
}

/// Waits for all of these concurrently.
pub(super) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
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
        assert_eq!(all(waits).await, [3, 1, 2]);
        assert_eq!(begun.elapsed().as_secs(), 3);
        assert!(all(Vec::<std::future::Ready<()>>::new()).await.is_empty());
    }

    #[test]
    fn one_and_many_come_out_as_they_went_in() {
        let mut numbers = 0..10;
        for count in [0, 1, 3] {
            let expected: Vec<i32> = numbers.clone().take(count).collect();
            let few = Few::take(count, &mut numbers);
            assert_eq!((few.len(), few.as_slice()), (count, &expected[..]));
            assert_eq!(few.into_iter().collect::<Vec<_>>(), expected);
        }
    }
}
