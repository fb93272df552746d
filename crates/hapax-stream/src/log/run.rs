//! A run of a consumer of a log: a batch after the other, each with a checkpoint behind it.

use super::calls::{Boxed, Gate, attempts, heartbeat, settle};
use super::marks::{Mark, Sight};
use super::memory::Memory;
use super::shared::{Held, LogMemory, LogShared, Sorted};
use crate::error::ConsumerError;
use crate::handling::delivery::Delivery;
use crate::handling::handler::Handler;
use crate::options::OnMissing;
use crate::order::{Order, Ticket};
use crate::source::{Acks, Partition, Source};
use crate::telemetry::event::Event;
use hapax_store::StoredId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

type Received<Src> = Result<Option<Vec<<Src as Source>::Message>>, <Src as Source>::Error>;

pub(crate) struct LogRun<'r, Src: Source, K: Memory> {
    consumer: &'r LogShared<Src::Message, K>,
    source: &'r Src,
    handler: Handler<Delivery<Src::Message>>,
    order: Order,
    /// The messages that were received and are not acknowledged.
    held: HashMap<Ticket, Held<Src::Message>>,
    next: Ticket,
    /// The running call, which is not dropped before it has answered.
    receiving: Option<Boxed<'r, Received<Src>>>,
    /// The messages that were received, and wait until the memory may be asked.
    early: Option<Vec<Src::Message>>,
    gate: Gate<'r, K>,
    revoking: Boxed<'r, Vec<Partition>>,
    /// `None` when it was ready.
    shutdown: Option<Boxed<'r, ()>>,
}

/// The end of a step.
#[derive(Default)]
struct Step {
    /// The partitions that are to be released.
    revoked: Vec<Partition>,
    /// True if nothing more is to be received.
    is_over: bool,
}

impl Step {
    const OVER: Step = Step { revoked: Vec::new(), is_over: true };

    fn concerns(&self, partition: &Partition) -> bool {
        self.is_over || self.revoked.contains(partition)
    }
}

/// The end of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Handled,
    PutAside,
}

/// A message to be handled.
struct Work<'r, E> {
    ticket: Ticket,
    partition: Partition,
    /// `None` for a message that has no id.
    mark: Option<Mark>,
    handling: Boxed<'r, Result<Ended, E>>,
}

/// A request to stop handling, by a deadline.
#[derive(Default)]
struct Stop {
    step: Step,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Stop {
    fn by(&mut self, drain: Duration) {
        self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(drain)));
    }
}

impl<'r, Src: Source, K: Memory> LogRun<'r, Src, K> {
    pub(crate) fn new(
        consumer: &'r LogShared<Src::Message, K>,
        source: &'r Src,
        handler: Handler<Delivery<Src::Message>>,
    ) -> Self {
        LogRun {
            consumer,
            source,
            handler,
            order: Order::new(source.acks()),
            held: HashMap::new(),
            next: 0,
            receiving: None,
            early: None,
            gate: Gate::new(&consumer.engine.memory),
            revoking: Box::pin(source.revoked()),
            shutdown: None,
        }
    }

    pub(crate) async fn run(self, shutdown: Boxed<'r, ()>) -> Result<(), ConsumerError<Src::Error>> {
        let LogShared { engine: LogMemory { memory, .. }, counts, .. } = self.consumer;
        let ended = tokio::select! {
            biased;
            // All that is under way is dropped with the run.
            error = memory.lost() => Err(ConsumerError::of_memory(error)),
            ended = self.go_on(shutdown) => ended,
            never = counts.meters.show_memory_of(memory.engine()) => match never {},
        };
        counts.meters.at_rest().await;
        ended
    }

    async fn go_on(mut self, shutdown: Boxed<'r, ()>) -> Result<(), ConsumerError<Src::Error>> {
        self.shutdown = Some(shutdown);
        // What an earlier run has left is done, or forgotten. And an engine that cannot have
        // checkpoints says so before anything is received.
        self.checkpoint(&[])?;
        let (consumer, source, (every, messages)) = (self.consumer, self.source, self.consumer.options.persist_every);
        let (mut ready, mut persisted) = (Vec::new(), Instant::now());
        loop {
            // What is done is made durable while a batch is received and handled.
            let is_due = persisted.elapsed() >= every || ready.len() >= messages;
            let settled = if is_due { std::mem::take(&mut ready) } else { Vec::new() };
            if !settled.is_empty() {
                persisted = Instant::now();
            }
            let due = (!ready.is_empty()).then(|| persisted + every);
            let settling = settle(consumer, source, settled);
            let (Step { revoked, is_over }, ()) = tokio::try_join!(self.step(due), settling)?;
            let done = self.order.take_ready();
            let done: Vec<_> = done.iter().filter_map(|ticket| self.held.remove(ticket)).collect();
            self.checkpoint(&done)?;
            ready.extend(done);
            if is_over || !revoked.is_empty() {
                settle(consumer, source, std::mem::take(&mut ready)).await?;
            }
            if !revoked.is_empty() {
                revoked.iter().for_each(|partition| self.order.close(partition));
                self.held.retain(|_, held| !revoked.contains(&source.partition(&held.message)));
                source.released(&revoked).await;
            }
            if is_over {
                return Ok(());
            }
            consumer.counts.meters.holds(self.held.len() + ready.len());
            consumer.counts.meters.stands(&consumer.health());
        }
    }

    /// Takes a checkpoint behind messages that are done, and everything before them in their
    /// partitions.
    fn checkpoint(&self, done: &[Held<Src::Message>]) -> Result<(), ConsumerError<Src::Error>> {
        let marks = &self.consumer.engine.marks;
        match marks.stuck() {
            0 => {}
            messages => return Err(ConsumerError::NotForgotten { messages }),
        }
        let mut positions = BTreeMap::new();
        if self.source.acks() == Acks::Cumulative {
            let with_position = |Held { message, .. }: &Held<Src::Message>| {
                Some((self.source.partition(message).to_string(), self.source.position(message)?))
            };
            // (Of a partition the last one counts.)
            positions.extend(done.iter().filter_map(with_position));
        }
        let checkpointed = marks.engine.journal().and_then(|journal| journal.checkpoint(positions));
        checkpointed.map(drop).map_err(ConsumerError::Journal)
    }

    /// Receives a batch, and handles it to its end.
    /// While it waits for messages, it is over at a time that is due.
    async fn step(&mut self, due: Option<Instant>) -> Result<Step, ConsumerError<Src::Error>> {
        let (source, batch) = (self.source, self.consumer.options.batch);
        let (receiving, revoking, shutdown) = (&mut self.receiving, &mut self.revoking, &mut self.shutdown);
        let (early, gate) = (&mut self.early, &mut self.gate);
        let mut due = due.map(|due| Box::pin(tokio::time::sleep_until(due)));
        let received = std::future::poll_fn(|cx| {
            if is_ready(shutdown, cx) {
                return Poll::Ready(Ok(None));
            }
            if let Poll::Ready(partitions) = revoking.as_mut().poll(cx) {
                *revoking = Box::pin(source.revoked());
                early.iter_mut().for_each(|early| early.retain(|one| !partitions.contains(&source.partition(one))));
                return Poll::Ready(Err(Step { revoked: partitions, is_over: false }));
            }
            if early.is_none() {
                let call = receiving.get_or_insert_with(|| Box::pin(source.receive(batch)));
                if let Poll::Ready(answer) = call.as_mut().poll(cx) {
                    *receiving = None;
                    match answer {
                        Ok(Some(messages)) => *early = Some(messages),
                        end => return Poll::Ready(Ok(Some(end.map_err(ConsumerError::Source)))),
                    }
                }
            }
            if early.is_some()
                && let Poll::Ready(opened) = gate.poll(cx)
            {
                return Poll::Ready(Ok(Some(opened.map(|()| early.take()).map_err(ConsumerError::of_memory))));
            }
            match due.as_mut().map(|due| due.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(Step::default())),
                _ => Poll::Pending,
            }
        });
        let messages = match received.await {
            Err(step) => return Ok(step),
            Ok(None | Some(Ok(None))) => return Ok(Step::OVER),
            Ok(Some(Ok(Some(messages)))) => messages,
            Ok(Some(Err(error))) => return Err(error),
        };
        if messages.is_empty() {
            // Other tasks get their turn, even if the source does not wait at all.
            tokio::task::yield_now().await;
            return Ok(Step::default());
        }
        let waiting = self.check(messages)?;
        self.handle(waiting).await
    }

    /// Checks a batch. Returns the messages that are to be handled.
    fn check(
        &mut self,
        messages: Vec<Src::Message>,
    ) -> Result<VecDeque<Work<'r, Src::Error>>, ConsumerError<Src::Error>> {
        let consumer = self.consumer;
        let messages: Vec<Held<Src::Message>> = messages.into_iter().map(|message| consumer.held(message)).collect();
        messages.iter().for_each(|held| consumer.count(held, Event::Received));
        let ids: Vec<Option<Vec<u8>>> = messages.iter().map(|held| (consumer.id_of)(&held.message)).collect();
        if consumer.options.on_missing == OnMissing::Error
            && let Some(missing) = ids.iter().position(Option::is_none)
        {
            consumer.count(&messages[missing], Event::Missing);
            return Err(ConsumerError::MissingId { partition: self.source.partition(&messages[missing].message) });
        }
        let contents = consumer
            .content_of
            .as_ref()
            .map(|content_of| messages.iter().map(|held| content_of(&held.message)).collect::<Vec<Option<Vec<u8>>>>());
        let partitions: Vec<Partition> = messages.iter().map(|held| self.source.partition(&held.message)).collect();
        let mut sights = consumer.engine.marks.see(&ids, contents.as_deref()).into_iter();
        let mut waiting = VecDeque::new();
        for ((held, id), partition) in messages.into_iter().zip(ids).zip(partitions) {
            let ticket = self.next;
            self.next += 1;
            self.order.received(&partition, ticket);
            self.held.insert(ticket, held.clone());
            let sight = id.as_ref().and_then(|_| sights.next());
            match self.work(ticket, &partition, held, id.as_deref(), sight) {
                Some(work) => waiting.push_back(work),
                None => self.order.done(&partition, ticket),
            }
        }
        Ok(waiting)
    }

    /// Returns what is to be done about a message; nothing if it is done.
    fn work(
        &self,
        ticket: Ticket,
        partition: &Partition,
        held: Held<Src::Message>,
        id: Option<&[u8]>,
        sight: Option<Sight>,
    ) -> Option<Work<'r, Src::Error>> {
        let consumer = self.consumer;
        let whose = StoredId::new(id.unwrap_or(&ticket.to_le_bytes()));
        let (mark, aside) = match consumer.sorted(&held, partition, sight) {
            Sorted::Done => return None,
            Sorted::Handled(mark) => (mark, None),
            Sorted::Aside(why) => (None, Some(why)),
        };
        let (source, handler) = (self.source, Arc::clone(&self.handler));
        let handling: Boxed<'r, Result<Ended, Src::Error>> = Box::pin(async move {
            let handled = match aside {
                Some(why) => Err(why.to_owned()),
                None => attempts(consumer, &handler, &held, whose).await,
            };
            let Err(why) = handled else { return Ok(Ended::Handled) };
            source.dead_letter(&held.message, &why).await?;
            consumer.count(&held, Event::DeadLettered);
            Ok(Ended::PutAside)
        });
        Some(Work { ticket, partition: partition.clone(), mark, handling })
    }

    /// Handles messages, some at a time, until all are done, or those that must stop are dropped.
    async fn handle(&mut self, mut waiting: VecDeque<Work<'r, Src::Error>>) -> Result<Step, ConsumerError<Src::Error>> {
        let (source, options) = (self.source, &self.consumer.options);
        let (mut running, mut stop): (Vec<Work<'r, Src::Error>>, _) = (Vec::new(), Stop::default());
        let mut beating = heartbeat(source, &self.held);
        let handled = std::future::poll_fn(|cx| {
            if is_ready(&mut self.shutdown, cx) {
                stop.step.is_over = true;
                stop.by(options.drain);
            }
            while let Poll::Ready(partitions) = self.revoking.as_mut().poll(cx) {
                self.revoking = Box::pin(source.revoked());
                stop.step.revoked.extend(partitions);
                stop.by(options.drain);
            }
            // What must stop does not begin any more.
            let before = waiting.len() + running.len();
            waiting.retain(|work| !stop.step.concerns(&work.partition));
            if stop.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready()) {
                running.retain(|work| !stop.step.concerns(&work.partition));
            }
            self.consumer.counts.add(Event::Abandoned, before - waiting.len() - running.len());
            if let Some(beating) = &mut beating {
                let _ = beating.as_mut().poll(cx);
            }
            loop {
                let mut i = 0;
                while let Some(work) = running.get_mut(i) {
                    match work.handling.as_mut().poll(cx) {
                        Poll::Pending => i += 1,
                        Poll::Ready(Ok(ended)) => {
                            let Work { ticket, partition, mark, .. } = running.swap_remove(i);
                            let end = if ended == Ended::Handled { Mark::keep } else { Mark::put_aside };
                            mark.into_iter().for_each(end);
                            self.order.done(&partition, ticket);
                        }
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(ConsumerError::Source(error))),
                    }
                }
                if waiting.is_empty() || running.len() >= options.max_in_flight() {
                    return if running.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending };
                }
                // Nothing begins while another may have the memory.
                if self.gate.poll(cx).map_err(ConsumerError::of_memory)?.is_pending() {
                    return Poll::Pending;
                }
                let room = options.max_in_flight() - running.len();
                running.extend(waiting.drain(..room.min(waiting.len())));
            }
        });
        handled.await?;
        Ok(stop.step)
    }
}

/// Polls a future that is ready once. Returns true if it is, or was.
fn is_ready(future: &mut Option<Boxed<'_, ()>>, cx: &mut Context<'_>) -> bool {
    if future.as_mut().is_some_and(|running| running.as_mut().poll(cx).is_pending()) {
        return false;
    }
    *future = None;
    true
}
