//! A run of a consumer: the consequences of each event. Nothing is awaited here but the next event.

use super::attempts::Attempts;
use super::calls::{Calls, Dead, Happened};
use super::drains::Drains;
use super::heartbeat::Heartbeat;
use super::messages::{Messages, Stage};
use crate::error::ConsumerError;
use crate::handling::attempt::Terms;
use crate::handling::handler::Handle;
use crate::order::{Order, Ticket};
use crate::shared::Shared;
use crate::source::{Acks, Partition, Source};
use crate::telemetry::event::Event;
use hapax_store::attempt_count::SentAs;
use hapax_store::{Store, StoredId, TieredClaim, TieredDedup};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The number of ids whose failures are counted, where the broker does not count.
const MAX_COUNTED: usize = 65_536;

pub(crate) struct Run<'r, S: Store, Src: Source> {
    pub(crate) shared: &'r Shared<TieredDedup<S>, Src::Message>,
    pub(crate) source: &'r Src,
    pub(crate) terms: Arc<Terms<Src::Message>>,
    /// The largest number of messages that a handler gets, and the time for which one waits for
    /// others.
    pub(crate) batches: (usize, Duration),
    /// The time until which messages wait for others, if they do.
    pub(crate) gathering: Option<Instant>,
    pub(crate) acks: Acks,
    pub(crate) calls: Calls<'r, S, Src>,
    pub(crate) messages: Messages<Src::Message>,
    pub(crate) order: Order,
    pub(crate) attempts: Attempts,
    /// The messages of running handlers.
    pub(crate) tasks: HashMap<tokio::task::Id, Vec<Ticket>>,
    /// Handled messages whose claims are to be completed. Their work is done: dropping them
    /// releases none.
    pub(crate) handled: Vec<(Ticket, TieredClaim<S>)>,
    /// Messages to be given back to the broker.
    pub(crate) retries: Vec<(Ticket, Duration)>,
    /// The names of deliveries that were put aside in this run.
    aside: HashSet<SentAs>,
    /// Messages to be put aside.
    pub(crate) dead: Vec<Dead<S>>,
    /// The earliest time of the next acknowledgement, after a failed flush.
    pub(crate) unflushed: Option<Instant>,
    pub(crate) store_failures: u32,
    /// The message that is tried in an outage of what handlers depend on.
    pub(crate) probe: Option<Ticket>,
    pub(crate) drains: Drains,
    /// True if there may be more to receive.
    pub(crate) is_receiving: bool,
    /// True if more messages may be received than handlers are free.
    pub(crate) keeps_received: bool,
    pub(crate) heartbeat: Option<Heartbeat>,
    error: Option<ConsumerError<Src::Error>>,
}

impl<'r, S: Store, Src: Source> Run<'r, S, Src> {
    pub(crate) fn new(
        shared: &'r Shared<TieredDedup<S>, Src::Message>,
        source: &'r Src,
        handle: Handle<Src::Message>,
        shutdown: impl Future<Output = ()> + Send + 'r,
    ) -> Self {
        let (acks, options) = (source.acks(), &shared.options);
        let batches = match &handle {
            Handle::Each(_) => (1, Duration::ZERO),
            Handle::Batches(_) => options.handler_batch(),
        };
        let terms = Terms {
            handle,
            on_takeover: shared.on_takeover.clone(),
            max_attempts: options.max_attempts(acks),
            timeout: options.handler_timeout,
            back_off: options.back_off(acks),
            store_back_off: options.store_back_off(acks),
            alone: Semaphore::new(1),
            counts: Arc::clone(&shared.counts),
            standing: Arc::clone(&shared.standing),
        };
        Run {
            shared,
            source,
            terms: Arc::new(terms),
            batches,
            gathering: None,
            acks,
            calls: Calls::new(shutdown),
            messages: Messages::new(shared.options.scope_of.is_some()),
            order: Order::new(acks),
            attempts: Attempts::new(MAX_COUNTED),
            tasks: HashMap::new(),
            handled: Vec::new(),
            retries: Vec::new(),
            aside: HashSet::new(),
            dead: Vec::new(),
            unflushed: None,
            store_failures: 0,
            probe: None,
            drains: Drains::default(),
            is_receiving: true,
            keeps_received: source.keeps_received(),
            heartbeat: source.heartbeat().map(|every| Heartbeat::new(every, Instant::now())),
            error: None,
        }
    }

    pub(crate) async fn run(mut self) -> Result<(), ConsumerError<Src::Error>> {
        loop {
            self.drains.advance(self.source, &mut self.messages, &mut self.order, &mut self.calls);
            if self.is_over() {
                return self.error.map_or(Ok(()), Err);
            }
            self.begin();
            let until = [
                self.messages.next_due(),
                self.unflushed,
                self.drains.next_deadline(),
                self.completions_wait_until(),
                self.next_heartbeat(),
                self.next_probe(),
                self.gathering,
            ];
            match self.calls.next(until.into_iter().flatten().min()).await {
                Happened::Shutdown => self.shut_down(),
                Happened::Due => {}
                Happened::Revoked(partitions) => self.revoke(partitions),
                Happened::Released => self.drains.released(),
                Happened::Extended(errors) => self.extended(&errors),
                Happened::Received(received) => self.received(received),
                Happened::Claimed(tickets, attempts) => self.claimed(tickets, attempts),
                Happened::Handled(handled) => self.handled(handled),
                Happened::Completed(completed) => self.completed(completed),
                Happened::CompletedLate(completed) => self.completed_late(completed),
                Happened::Acknowledged(tickets, acknowledged) => self.acknowledged(tickets, acknowledged),
                Happened::Retried(tickets, retried) => self.retried(tickets, retried),
                Happened::DeadLettered(dead, put_aside) => self.dead_lettered(dead, put_aside),
            }
            self.shared.counts.meters.holds(self.messages.len());
            self.shared.counts.meters.stands(&self.shared.health());
            self.shared.counts.meters.doubts(self.shared.standing.oldest_doubt());
        }
    }

    fn is_over(&self) -> bool {
        // Finished work is recorded even if its message belongs to another consumer by now.
        let all_recorded = self.handled.is_empty() && self.calls.complete.is_none() && self.calls.late.is_empty();
        let all_done =
            self.messages.len() == 0 && all_recorded && self.calls.released.is_none() && self.drains.is_empty();
        self.drains.is_shut_down() || (!self.is_receiving && all_done)
    }

    fn shut_down(&mut self) {
        if self.drains.is_shutting_down() {
            return;
        }
        self.is_receiving = false;
        self.calls.receive = None;
        self.drains.shut_down(self.drain_deadline());
        for ticket in self.messages.take_idle(|_| true) {
            self.give_back(ticket);
        }
    }

    fn revoke(&mut self, partitions: Vec<Partition>) {
        if !partitions.is_empty() {
            self.drains.revoke(partitions, self.drain_deadline(), &mut self.messages);
        }
    }

    fn drain_deadline(&self) -> Instant {
        Instant::now() + self.shared.options.drain
    }

    pub(crate) fn is_paused(&self) -> bool {
        *self.shared.standing.paused.borrow()
    }

    /// Returns the time at which a message that waits is tried in an outage.
    fn next_probe(&self) -> Option<Instant> {
        let waits =
            self.calls.claim.is_none() && self.messages.has_waiting() && !self.is_paused() && !self.is_probing();
        self.shared.standing.outage().next().filter(|_| waits)
    }

    /// Returns true if a message is tried in an outage now.
    pub(crate) fn is_probing(&self) -> bool {
        self.probe.is_some_and(|probe| self.tasks.values().any(|tickets| tickets.contains(&probe)))
    }

    fn next_heartbeat(&self) -> Option<Instant> {
        let is_waiting = self.calls.extend.is_none() && self.messages.len() > 0;
        self.heartbeat.as_ref().filter(|_| is_waiting).map(Heartbeat::next)
    }

    /// Counts the errors. A message that the broker was not told of is in the next heartbeat. If
    /// the broker delivers it elsewhere meanwhile, the other consumer finds the id in progress.
    fn extended(&self, errors: &[String]) {
        self.count(Event::Unextended, errors.len());
        errors.iter().for_each(|error| self.shared.counts.not_extended(error));
    }

    /// Notes that a message need not be handled again.
    pub(crate) fn done(&mut self, ticket: Ticket) {
        let Some(held) = self.messages.get_mut(ticket) else { return };
        held.stage = Stage::Handled;
        if let Some(id) = &held.id {
            self.attempts.forget(&StoredId::new(id));
        }
        let partition = held.partition.clone();
        self.messages.done(ticket);
        self.order.done(&partition, ticket);
    }

    pub(crate) fn put_aside(&mut self, dead: Dead<S>) {
        let name = self.messages.get(dead.ticket).and_then(|held| held.sent.name);
        if dead.dying.again && name.is_some_and(|name| self.aside.contains(&name)) {
            // A copy of the same delivery, whose dead letter is there. Its claim is dropped.
            self.count_of(dead.ticket, Event::AsideAgain);
            return self.is_put_aside(dead.ticket);
        }
        self.set_busy(dead.ticket, true);
        self.messages.set_stage(Stage::Handled, dead.ticket);
        self.dead.push(dead);
    }

    /// Notes that the broker has the dead letter of a message. (If there are too many, all are
    /// forgotten: copies of them get dead letters of their own.)
    pub(crate) fn is_put_aside(&mut self, ticket: Ticket) {
        let Some(held) = self.messages.get_mut(ticket) else { return };
        // Its count is kept: it says that this delivery is put aside.
        held.note = None;
        let name = held.sent.name;
        if self.aside.len() >= MAX_COUNTED {
            self.aside.clear();
        }
        self.aside.extend(name);
        self.done(ticket);
    }

    /// Has a message tried again, after this long: by the broker, if it takes messages back and
    /// none waits for it here.
    pub(crate) fn again(&mut self, ticket: Ticket, after: Duration) {
        self.count_of(ticket, Event::Retried);
        if self.is_kept(ticket) { self.later(ticket, after) } else { self.leave(ticket, after) }
    }

    /// Returns true if a message is tried again here: it stands for those before it, or those of
    /// its key wait for it, which a broker would deliver before it.
    pub(crate) fn is_kept(&self, ticket: Ticket) -> bool {
        self.acks == Acks::Cumulative || self.messages.get(ticket).is_some_and(|held| held.lane.is_some())
    }

    /// Gives a message back to the broker.
    fn leave(&mut self, ticket: Ticket, after: Duration) {
        self.messages.set_idle(ticket);
        self.set_busy(ticket, true);
        self.messages.set_stage(Stage::Leaving, ticket);
        self.retries.push((ticket, after));
    }

    /// Has a message tried again here, after this long.
    pub(crate) fn later(&mut self, ticket: Ticket, after: Duration) {
        let Some(held) = self.messages.get(ticket) else { return };
        if self.drains.covers(&held.partition) {
            self.give_back(ticket)
        } else {
            self.messages.set_stage(Stage::Here, ticket);
            self.messages.wait_until(Instant::now() + after, ticket);
        }
    }

    /// Gives up a message that was not handled, and will not be here.
    pub(crate) fn give_back(&mut self, ticket: Ticket) {
        match self.acks {
            Acks::Each if self.drains.is_shutting_down() => self.leave(ticket, Duration::ZERO),
            // The next owner of the partition gets it.
            _ => drop(self.messages.remove(ticket)),
        }
    }

    /// Marks a message as busy or idle. Returns true if it is held.
    pub(crate) fn set_busy(&mut self, ticket: Ticket, is_busy: bool) -> bool {
        let held = self.messages.get_mut(ticket);
        held.map(|held| held.is_busy = is_busy).is_some()
    }

    /// Counts what happened to a message.
    pub(crate) fn count_of(&self, ticket: Ticket, event: Event) {
        let kind = self.messages.get(ticket).and_then(|held| held.kind.as_deref());
        self.shared.counts.add_of(kind, event, 1);
    }

    pub(crate) fn count(&self, event: Event, n: usize) {
        self.shared.counts.add(event, n);
    }

    /// Ends the run with the first error, once everything that was begun is done.
    pub(crate) fn fail(&mut self, error: ConsumerError<Src::Error>) {
        self.error.get_or_insert(error);
        self.shut_down();
    }
}
