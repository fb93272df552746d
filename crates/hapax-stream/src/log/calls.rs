//! The calls of a run of a consumer of a log: to its memory, its source, and its handler.

use super::memory::Memory;
use super::shared::{Held, LogShared};
use crate::error::ConsumerError;
use crate::handling::delivery::Delivery;
use crate::handling::handler::{FailureKind, Handler, call};
use crate::order::Ticket;
use crate::source::{Acks, Source};
use crate::telemetry::event::Event;
use hapax::seam::random;
use hapax_store::StoredId;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

pub(crate) type Boxed<'r, T> = Pin<Box<dyn Future<Output = T> + Send + 'r>>;

/// Makes what is done durable, and acknowledges it.
pub(crate) async fn settle<Src: Source, K: Memory>(
    consumer: &LogShared<Src::Message, K>,
    source: &Src,
    ready: Vec<Held<Src::Message>>,
) -> Result<(), ConsumerError<Src::Error>> {
    if ready.is_empty() {
        return Ok(());
    }
    consumer.engine.memory.persist().await.map_err(ConsumerError::of_memory)?;
    let messages: Vec<_> = ready.iter().map(|held| Arc::clone(&held.message)).collect();
    source.acknowledge(&messages).await.map_err(ConsumerError::Source)?;
    ready.iter().for_each(|held| consumer.count(held, Event::Acknowledged));
    consumer.standing.went_on();
    Ok(())
}

/// Asks whether a memory may be asked, and waits if it may not.
pub(crate) struct Gate<'r, K: Memory> {
    memory: &'r K,
    opening: Option<Boxed<'r, Result<(), K::Error>>>,
}

impl<'r, K: Memory> Gate<'r, K> {
    pub(crate) fn new(memory: &'r K) -> Self {
        Gate { memory, opening: None }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), K::Error>> {
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
pub(crate) async fn attempts<M: Send + Sync + 'static, K: Memory>(
    consumer: &LogShared<M, K>,
    handler: &Handler<Delivery<M>>,
    held: &Held<M>,
    id: StoredId,
) -> Result<(), String> {
    let (options, counts) = (&consumer.options, &consumer.counts);
    let (max_attempts, back_off) = (options.max_attempts(Acks::Cumulative), options.back_off(Acks::Cumulative));
    let count = |event| consumer.count(held, event);
    let mut failures = 0_u32;
    loop {
        let alone = turn(consumer).await;
        let attempt = failures.saturating_add(1);
        let mut is_last = attempt >= max_attempts;
        let message = Arc::clone(&held.message);
        let delivery = Delivery { message, token: consumer.engine.memory.token(), before: None, attempt, is_last };
        let since = Instant::now();
        let handled = call(handler, delivery, options.handler_timeout).await;
        counts.of(held.kind.as_deref()).handled(since.elapsed());
        let Err((why, how)) = handled else {
            consumer.standing.outage().succeeded();
            count(Event::Handled);
            return Ok(());
        };
        if alone.is_some() {
            consumer.standing.outage().tried_in_vain(Instant::now(), random::any());
        }
        drop(alone);
        consumer.met(&why);
        how.events().iter().for_each(|&event| count(event));
        let counts_as_one = how.is_attempt(&consumer.standing, id, random::any());
        is_last = counts_as_one && (is_last || how == FailureKind::GaveUp);
        counts.failed(&why, is_last);
        if is_last {
            return Err(why);
        }
        failures = failures.saturating_add(u32::from(counts_as_one));
        count(Event::Retried);
        tokio::time::sleep(how.after(|| back_off.after(attempt, random::any()))).await;
    }
}

/// Waits until a message may be tried: in an outage they take turns, with a permit.
async fn turn<M, K>(consumer: &LogShared<M, K>) -> Option<SemaphorePermit<'_>> {
    consumer.standing.outage().since()?;
    let alone = consumer.engine.alone.acquire().await.ok();
    let next = || consumer.standing.outage().next();
    while let Some(next) = next().filter(|next| *next > Instant::now()) {
        tokio::time::sleep_until(next).await;
    }
    // If it is over by now, all go on.
    alone.filter(|_| next().is_some())
}

/// Tells the source again and again that messages are worked on, if it wants to know. Never ends.
pub(crate) fn heartbeat<'r, Src: Source>(
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
