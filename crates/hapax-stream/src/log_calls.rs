//! The calls of a run of a consumer of a log: to its memory, its source, and its handler.

use super::delivery::Delivery;
use super::error::ConsumerError;
use super::event::Event;
use super::handler::{FailureKind, Handler, call};
use super::log_shared::{Held, LogShared};
use super::memory::Memory;
use super::order::Ticket;
use super::source::Source;
use hapax::tier::random;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;

pub(super) type Boxed<'r, T> = Pin<Box<dyn Future<Output = T> + Send + 'r>>;

/// Makes what is done durable, and acknowledges it.
pub(super) async fn settle<Src: Source, K: Memory>(
    consumer: &LogShared<Src::Message, K>,
    source: &Src,
    ready: Vec<Held<Src::Message>>,
) -> Result<(), ConsumerError<Src::Error>> {
    if ready.is_empty() {
        return Ok(());
    }
    consumer.memory.persist().await.map_err(ConsumerError::of_memory)?;
    let messages: Vec<_> = ready.iter().map(|held| Arc::clone(&held.message)).collect();
    source.acknowledge(&messages).await.map_err(ConsumerError::Source)?;
    ready.iter().for_each(|held| consumer.count(held, Event::Acknowledged));
    Ok(())
}

/// Asks whether a memory may be asked, and waits if it may not.
pub(super) struct Gate<'r, K: Memory> {
    memory: &'r K,
    opening: Option<Boxed<'r, Result<(), K::Error>>>,
}

impl<'r, K: Memory> Gate<'r, K> {
    pub(super) fn new(memory: &'r K) -> Self {
        Gate { memory, opening: None }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), K::Error>> {
        if self.memory.is_usable() {
            self.opening = None;
            return Poll::Ready(Ok(()));
        }
        let memory = self.memory;
        let opened = std::task::ready!(self.opening.get_or_insert_with(|| Box::pin(memory.usable())).as_mut().poll(cx));
        self.opening = None;
        Poll::Ready(opened)
    }
}

/// Handles a message, again and again. Fails with the reason why the last attempt has failed.
pub(super) async fn attempts<M: Send + Sync + 'static, K: Memory>(
    consumer: &LogShared<M, K>,
    handler: &Handler<M>,
    held: &Held<M>,
) -> Result<(), String> {
    let (options, counts) = (&consumer.options, &consumer.counts);
    let count = |event| consumer.count(held, event);
    let mut attempt = 0_u32;
    loop {
        attempt = attempt.saturating_add(1);
        let mut is_last = attempt >= options.max_attempts;
        let message = Arc::clone(&held.message);
        let delivery = Delivery { message, token: consumer.memory.token(), attempt, is_last };
        let since = Instant::now();
        let handled = call(handler, delivery, options.handler_timeout).await;
        counts.of(held.kind.as_deref()).handled(since.elapsed());
        let Err((why, how)) = handled else {
            count(Event::Handled);
            return Ok(());
        };
        count(Event::Failed);
        how.event().into_iter().for_each(count);
        is_last |= how == FailureKind::GaveUp;
        counts.failed(&why, is_last);
        if is_last {
            return Err(why);
        }
        count(Event::Retried);
        tokio::time::sleep(options.back_off.after(attempt, random::any())).await;
    }
}

/// Tells the source again and again that messages are worked on, if it wants to know. Never ends.
pub(super) fn heartbeat<'r, Src: Source>(
    source: &'r Src,
    held: &HashMap<Ticket, Held<Src::Message>>,
) -> Option<Boxed<'r, ()>> {
    let every = source.heartbeat()?;
    let messages: Vec<_> = held.values().map(|held| Arc::clone(&held.message)).collect();
    Some(Box::pin(async move {
        loop {
            tokio::time::sleep(every).await;
            // An error, or no answer: the next heartbeat has all of them again.
            let _ = tokio::time::timeout(every, source.extend(&messages)).await;
        }
    }))
}
