//! The calls of one thread of a workload.

use super::pace::{Member, Pace};
use super::workload::{Call, Clocks, Workload};
use hapax::Timestamp;
use hapax::seam::random::{Random, hash};
use std::ops::Range;
use std::time::Instant;

/// The number of steps after a meeting during which all threads check the same ids.
const TOGETHER: u64 = 8;

/// The number of further steps during which they claim the same ids, if there are leases.
const CONTESTED: u64 = 8;

/// The number of steps after which threads wait for the time, if they do not meet.
const WAIT_EVERY: u64 = 64;

/// The calls of one thread.
#[derive(Debug)]
pub(crate) struct Script<'a> {
    workload: &'a Workload,
    member: Member<'a>,
    thread: u64,
    random: Random,
    step: u64,
    end: u64,
    /// The beginning of the workload.
    origin: Instant,
    /// The time of the first step.
    begun: Instant,
    first: u64,
}

impl<'a> Script<'a> {
    /// Returns the calls of each thread from one operation of the workload to another.
    pub(crate) fn of_threads(workload: &'a Workload, pace: &'a Pace, operations: Range<u64>) -> Vec<Self> {
        let threads = u64::from(workload.threads);
        let steps = operations.start / threads..operations.end / threads;
        pace.begin(steps.start);
        let begun = Instant::now();
        (0..threads).map(|thread| Script::new(workload, pace, begun, thread, steps.clone())).collect()
    }

    fn new(workload: &'a Workload, pace: &'a Pace, begun: Instant, thread: u64, steps: Range<u64>) -> Self {
        Script {
            workload,
            member: pace.member(thread as usize),
            thread,
            random: Random::new(hash([workload.seed, thread, steps.start])),
            step: steps.start,
            end: steps.end,
            origin: pace.origin(),
            begun,
            first: steps.start,
        }
    }

    /// Waits for the time of the present step, unless it is late already.
    fn wait(&self) {
        if self.workload.clocks != Clocks::Paced {
            return;
        }
        let due = self.workload.time_of(self.step - self.first);
        while let Some(left) = due.checked_sub(self.begun.elapsed()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left);
        }
    }

    fn any_id(&mut self) -> u64 {
        let workload = self.workload;
        let other = self.random.below(u64::from(workload.threads));
        match self.random.below(8) {
            // An id that was checked just now, by any thread.
            0..=2 => workload.own(other, self.step.saturating_sub(self.random.below(8))),
            // An id that was checked a window ago.
            3 => {
                let back = workload.back_by_a_window(self.random.next());
                workload.own(other, self.step.checked_sub(back).unwrap_or(self.step))
            }
            // An id that all have checked just now.
            4 => workload.common(self.step.saturating_sub(self.random.below(64))),
            _ => workload.own(self.thread, self.step),
        }
    }

    fn claim(&mut self, id: u64) -> Call {
        // At once, mostly: then it ends while others are about to begin with the same id.
        let hold = self.random.below(8).saturating_sub(4) as u8;
        Call::Claim { id, hold, completes: self.random.below(4) > 0 }
    }

    /// Returns a claim of an id for a lease.
    fn lease(&mut self, id: u64, may_be_long: bool) -> Call {
        let lease = self.workload.lease;
        let completes = self.random.below(4) > 0;
        let part = |percent: u64| lease.mul_f64(percent as f64 / 100.0);
        let (hold, renew_after) = match self.random.below(4) {
            // For longer than the lease, so that another thread takes it over.
            0 | 1 if may_be_long => (part(100 + self.random.below(20)), None),
            2 if may_be_long => (part(150 + self.random.below(60)), Some(part(70 + self.random.below(60)))),
            _ => (part(self.random.below(4)), None),
        };
        let fingerprint =
            if self.random.chance(self.workload.fingerprints) { 1 + u8::from(self.random.below(8) == 0) } else { 0 };
        Call::Lease { id, fingerprint, hold, renew_after, completes }
    }

    /// Returns the call with which all threads ask for an id of which one gets the lease.
    fn contest(&mut self) -> Call {
        let id = self.workload.contested(self.step);
        match self.random.below(8) {
            0 => Call::Check(id),
            _ => self.lease(id, true),
        }
    }

    /// Returns the ids of a batch; the steps go on as if they were checked one by one.
    fn batch(&mut self, size: u64) -> Call {
        let id = |i| {
            self.step += u64::from(i > 0);
            self.any_id()
        };
        Call::Batch((0..size).map(id).collect())
    }
}

impl Iterator for Script<'_> {
    type Item = (Timestamp, Call);

    fn next(&mut self) -> Option<Self::Item> {
        if self.step >= self.end {
            return None;
        }
        let workload = self.workload;
        let since_met = self.step.checked_rem(workload.meet_every).unwrap_or(u64::MAX);
        if since_met == 0 || (workload.meet_every == 0 && self.step.is_multiple_of(WAIT_EVERY)) {
            self.wait();
        }
        if since_met == 0 {
            self.member.meet(self.step);
        }
        let forgets = self.random.chance(workload.forgets);
        let claims = self.random.chance(workload.claims);
        let call = if since_met < TOGETHER {
            let id = workload.common(self.step);
            if forgets {
                Call::Forget(id)
            } else if claims {
                self.claim(id)
            } else {
                Call::Check(id)
            }
        } else if workload.leases > 0 && since_met < TOGETHER + CONTESTED {
            self.contest()
        } else if forgets {
            Call::Forget(self.any_id())
        } else if claims {
            let id = self.any_id();
            self.claim(id)
        } else if workload.leases > 0 && self.random.chance(workload.leases) {
            let id = self.any_id();
            self.lease(id, false)
        } else if self.random.chance(workload.batches) {
            let until_met = workload.meet_every.checked_sub(since_met).unwrap_or(u64::MAX);
            let room = until_met.min(self.end - self.step).min(workload.batch_max);
            let size = 1 + self.random.below(room.max(1));
            self.batch(size)
        } else {
            Call::Check(self.any_id())
        };
        let at = workload.now(self.thread, self.step, self.origin);
        self.step += 1;
        Some((at, call))
    }
}
