//! The end of a consumer's work on some partitions, or on all: nothing new, then a deadline, then a
//! fence.

use super::calls::{Calls, Happened, call};
use super::messages::Messages;
use crate::order::{Order, Ticket};
use crate::source::{Partition, Source};
use hapax_store::Store;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The time after the deadline for dropping handlers and releasing claims, after which the drain no
/// longer waits.
const GRACE: Duration = Duration::from_secs(1);

/// The drains under way.
#[derive(Default)]
pub(crate) struct Drains {
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

    /// Takes the next step: handlers that are late are stopped. Returns true if it is over.
    fn advance<M>(&mut self, now: Instant, is_releasing: bool, messages: &mut Messages<M>, order: &Order) -> bool {
        let busy = messages.matching(|held| held.is_busy && self.covers(&held.partition));
        let has_ready =
            order.has_ready_of(|ticket| messages.get(ticket).is_some_and(|held| self.covers(&held.partition)));
        let step = self.step(now, !busy.is_empty() || has_ready || is_releasing);
        if step == Step::Stop {
            for ticket in busy {
                if let Some(held) = messages.get_mut(ticket) {
                    held.stop = None;
                }
            }
        }
        step == Step::End
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
    pub(crate) fn covers(&self, partition: &Partition) -> bool {
        let ends = self.revoked.iter().chain(&self.shutdown).any(|drain| drain.covers(partition));
        ends || self.reporting.contains(partition) || self.to_report.iter().any(|them| them.contains(partition))
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.revoked.is_empty() && self.to_report.is_empty() && self.reporting.is_empty() && self.shutdown.is_none()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.revoked.iter().chain(&self.shutdown).map(|drain| drain.until).min()
    }

    /// Notes that the source was told.
    pub(crate) fn released(&mut self) {
        self.reporting.clear();
    }

    /// Begins the drain of all partitions.
    pub(crate) fn shut_down(&mut self, until: Instant) {
        debug_assert!(self.shutdown.is_none(), "a second shutdown would put off the deadline");
        self.shutdown = Some(Drain::new(Vec::new(), until));
    }

    /// Begins the drain of these partitions: their messages that wait are not handled any more.
    pub(crate) fn revoke<M>(&mut self, partitions: Vec<Partition>, until: Instant, messages: &mut Messages<M>) {
        let drain = Drain::new(partitions, until);
        for ticket in messages.take_idle(|held| drain.covers(&held.partition)) {
            messages.remove(ticket);
        }
        self.revoked.push(drain);
    }

    /// Takes the next step of each drain.
    pub(crate) fn advance<'r, S: Store, Src: Source>(
        &mut self,
        source: &'r Src,
        messages: &mut Messages<Src::Message>,
        order: &mut Order,
        calls: &mut Calls<'r, S, Src>,
    ) {
        let now = Instant::now();
        let mut going_on = Vec::new();
        for mut drain in std::mem::take(&mut self.revoked) {
            if drain.advance(now, false, messages, order) {
                self.release(drain.partitions, messages, order, calls)
            } else {
                going_on.push(drain)
            }
        }
        self.revoked = going_on;
        if calls.released.is_none()
            && let Some(partitions) = self.to_report.pop_front()
        {
            self.reporting.clone_from(&partitions);
            calls.released = call(async move {
                source.released(&partitions).await;
                Happened::Released
            });
        }
        // Last, since a task that waits for a release is told before the run ends.
        if let Some(drain) = &mut self.shutdown {
            self.is_shut_down = drain.advance(now, calls.released.is_some(), messages, order);
        }
    }

    /// Releases partitions: from here on none of their messages is acknowledged, and the results of
    /// calls under way are ignored.
    fn release<S: Store, Src: Source>(
        &mut self,
        partitions: Vec<Partition>,
        messages: &mut Messages<Src::Message>,
        order: &mut Order,
        calls: &mut Calls<'_, S, Src>,
    ) {
        let gone: HashSet<Ticket> =
            messages.matching(|held| partitions.contains(&held.partition)).into_iter().collect();
        for &ticket in &gone {
            messages.remove(ticket);
        }
        partitions.iter().for_each(|partition| order.close(partition));
        let others = calls.cancel_acknowledging(&gone);
        order.again(others);
        self.to_report.push_back(partitions);
    }
}
