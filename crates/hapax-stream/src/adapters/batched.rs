//! A stream whose items are requested in batches: items that are ready while a call is under way
//! are the next batch.

use futures_core::Stream;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Future answers, one for each item.
pub(crate) type Asking<A> = Pin<Box<dyn Future<Output = Vec<A>> + Send>>;

pub(crate) struct Batched<St: Stream, A> {
    /// The stream; `None` when it has ended: it is not polled again.
    stream: Option<Pin<Box<St>>>,
    max: usize,
    gathered: Vec<St::Item>,
    asking: Option<(Vec<St::Item>, Asking<A>)>,
    answered: VecDeque<(St::Item, A)>,
}

// Items are not pinned: only boxes are.
impl<St: Stream, A> Unpin for Batched<St, A> {}

impl<St: Stream, A> Batched<St, A> {
    pub(crate) fn new(stream: St, max: usize) -> Self {
        let stream = Some(Box::pin(stream));
        Batched { stream, max, gathered: Vec::new(), asking: None, answered: VecDeque::new() }
    }

    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Returns the upper bound of the number of further items.
    pub(crate) fn upper(&self) -> Option<usize> {
        let asked = self.asking.as_ref().map_or(0, |(items, _)| items.len());
        let here = self.gathered.len() + asked + self.answered.len();
        self.stream.as_ref().map_or(Some(0), |stream| stream.size_hint().1)?.checked_add(here)
    }

    /// Polls for the next item that `wanted` maps to a value, given its answer. Polls the stream
    /// only for as many items as a batch takes, and goes through one batch at most.
    pub(crate) fn poll_wanted<T>(
        &mut self,
        cx: &mut Context<'_>,
        ask: impl FnOnce(&[St::Item]) -> Asking<A>,
        mut wanted: impl FnMut(St::Item, A) -> Option<T>,
    ) -> Poll<Option<T>> {
        if let Some(next) = self.next_wanted(&mut wanted) {
            return Poll::Ready(Some(next));
        }
        self.gather(cx);
        if self.asking.is_none() && !self.gathered.is_empty() {
            let items = std::mem::take(&mut self.gathered);
            let asking = ask(&items);
            self.asking = Some((items, asking));
            // There is room again, and the end of the stream must be noticed.
            self.gather(cx);
        }
        let Some((_, asking)) = &mut self.asking else {
            return if self.stream.is_none() { Poll::Ready(None) } else { Poll::Pending };
        };
        let Poll::Ready(answers) = asking.as_mut().poll(cx) else { return Poll::Pending };
        if let Some((items, _)) = self.asking.take() {
            self.answered.extend(items.into_iter().zip(answers));
        }
        match self.next_wanted(&mut wanted) {
            Some(next) => Poll::Ready(Some(next)),
            None => {
                // Other tasks may run before the next batch.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn next_wanted<T>(&mut self, wanted: &mut impl FnMut(St::Item, A) -> Option<T>) -> Option<T> {
        std::iter::from_fn(|| self.answered.pop_front()).find_map(|(item, answer)| wanted(item, answer))
    }

    fn gather(&mut self, cx: &mut Context<'_>) {
        while self.gathered.len() < self.max
            && let Some(stream) = &mut self.stream
        {
            match stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => self.gathered.push(item),
                Poll::Ready(None) => self.stream = None,
                Poll::Pending => return,
            }
        }
    }
}
