//! The end of a consumer's work on some partitions, or on all: nothing new, then a deadline, then a
//! fence.

use super::order::Ticket;
use super::run::Run;
use super::source::{Partition, Source};
use hapax_store::Store;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The time after the deadline for dropping handlers and releasing claims, after which the drain no
/// longer waits.
const GRACE: Duration = Duration::from_secs(1);

/// The drains under way.
#[derive(Default)]
pub(super) struct Drains {
    revoked: Vec<Drain>,
    /// Partitions to be reported as released, one set after the other.
    to_report: VecDeque<Vec<Partition>>,
    reporting: Vec<Partition>,
    shutdown: Option<Drain>,
    is_shut_down: bool,
}

struct Drain {
    /// The partitions; an empty list means all.
    partitions: Vec<Partition>,
    until: Instant,
    is_fenced: bool,
}

/// The next step of a drain.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Wait,
    Stop,
    End,
}

impl Drain {
    fn new(partitions: Vec<Partition>, until: Instant) -> Self {
        Drain { partitions, until, is_fenced: false }
    }

    fn covers(&self, partition: &Partition) -> bool {
        self.partitions.is_empty() || self.partitions.contains(partition)
    }

    fn step(&mut self, now: Instant, is_busy: bool) -> Step {
        match (is_busy, now >= self.until) {
            (false, _) => Step::End,
            (true, false) => Step::Wait,
            (true, true) if self.is_fenced => Step::End,
            (true, true) => {
                self.is_fenced = true;
                self.until = now + GRACE;
                Step::Stop
            }
        }
    }
}

impl Drains {
    /// Returns true if nothing new of the partition may begin.
    pub(super) fn covers(&self, partition: &Partition) -> bool {
        let ends = self.revoked.iter().chain(&self.shutdown).any(|drain| drain.covers(partition));
        ends || self.reporting.contains(partition) || self.to_report.iter().any(|them| them.contains(partition))
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.is_shut_down
    }

    pub(super) fn is_empty(&self) -> bool {
        self.revoked.is_empty() && self.to_report.is_empty() && self.reporting.is_empty() && self.shutdown.is_none()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.revoked.iter().chain(&self.shutdown).map(|drain| drain.until).min()
    }

    /// Notes that the source was told.
    pub(super) fn released(&mut self) {
        self.reporting.clear();
    }
}

impl<S: Store, Src: Source> Run<'_, S, Src> {
    pub(super) fn shut_down(&mut self) {
        if self.drains.is_shutting_down() {
            return;
        }
        self.is_receiving = false;
        self.calls.receive = None;
        self.drains.shutdown = Some(Drain::new(Vec::new(), Instant::now() + self.consumer.options.drain));
        for ticket in self.messages.take_idle(|_| true) {
            self.give_back(ticket);
        }
    }

    pub(super) fn revoke(&mut self, partitions: Vec<Partition>) {
        if partitions.is_empty() {
            return;
        }
        let drain = Drain::new(partitions, Instant::now() + self.consumer.options.drain);
        for ticket in self.messages.take_idle(|held| drain.covers(&held.partition)) {
            self.messages.remove(ticket);
        }
        self.drains.revoked.push(drain);
    }

    pub(super) fn advance_drains(&mut self) {
        let now = Instant::now();
        let mut going_on = Vec::new();
        for mut drain in std::mem::take(&mut self.drains.revoked) {
            match self.step(&mut drain, now) {
                true => self.release(drain.partitions),
                false => going_on.push(drain),
            }
        }
        self.drains.revoked = going_on;
        if self.calls.released.is_none()
            && let Some(partitions) = self.drains.to_report.pop_front()
        {
            self.drains.reporting = partitions.clone();
            let source = self.source;
            self.calls.released = Some(Box::pin(async move { source.released(&partitions).await }));
        }
        // Last, since a task that waits for a release is told before the run ends.
        if let Some(mut drain) = self.drains.shutdown.take() {
            self.drains.is_shut_down = self.step(&mut drain, now);
            self.drains.shutdown = Some(drain);
        }
    }

    /// Takes the next step. Returns true if the drain is over.
    fn step(&mut self, drain: &mut Drain, now: Instant) -> bool {
        let busy: Vec<Ticket> = self.messages.such(|held| held.is_busy && drain.covers(&held.partition));
        let has_ready = self
            .order
            .has_ready_of(|ticket| self.messages.get(ticket).is_some_and(|held| drain.covers(&held.partition)));
        let is_releasing = drain.partitions.is_empty() && self.calls.released.is_some();
        match drain.step(now, !busy.is_empty() || has_ready || is_releasing) {
            Step::Wait => false,
            Step::Stop => {
                for ticket in busy {
                    if let Some(held) = self.messages.get_mut(ticket) {
                        held.stop = None;
                    }
                }
                false
            }
            Step::End => true,
        }
    }

    /// Releases partitions: from here on none of their messages is acknowledged, and the results of
    /// calls under way are ignored.
    fn release(&mut self, partitions: Vec<Partition>) {
        let gone: HashSet<Ticket> =
            self.messages.such(|held| partitions.contains(&held.partition)).into_iter().collect();
        for &ticket in &gone {
            self.messages.remove(ticket);
        }
        partitions.iter().for_each(|partition| self.order.close(partition));
        let others = self.calls.cancel_acknowledging(&gone);
        self.order.again(others);
        self.drains.to_report.push_back(partitions);
    }
}
