//! The calls of the threads: ids that many check at once, ids that come again, batches, forgetting,
//! and clocks that differ.

use super::pace::{Member, Pace};
use hapax::Timestamp;
use hapax::tier::random::{Random, hash, scale};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The calls of threads on a subject, determined by a seed. (The calls, not their times: the same
/// workload gives another history each time.)
///
/// ```
/// use hapax_testing::{Clocks, Workload};
/// use std::time::Duration;
///
/// let window = Duration::from_secs(60);
/// let workload = Workload { threads: 8, forgets: 2, ..Workload::of_window(window) };
/// ```
///
/// Each thread makes its share of the calls. From time to time all wait for each other, and then
/// check the same ids, in the same order, at the same moment; some of these ids are new, others
/// have been accepted one window ago, and some are being forgotten meanwhile. In between, threads
/// check ids of their own, ids that others have checked just now, and ids that others have checked
/// a window ago, one by one or in batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The seed of the random numbers.
    pub seed: u64,
    /// The number of threads. More than there are processors are useful, too: then the system
    /// interrupts them anywhere.
    pub threads: u16,
    /// The number of operations, of all threads.
    pub operations: u64,
    /// The time for which the subject remembers an id.
    pub window: Duration,
    /// The number of operations within a window, and so the speed of time on [`Clocks::Virtual`].
    pub operations_per_window: u64,
    /// The clock of the threads.
    pub clocks: Clocks,
    /// The largest difference between the threads' clocks. Each thread's error changes now and
    /// then, so its clock may go backwards.
    pub skew: Duration,
    /// The number of its operations after which a thread waits for the others. 0: never, and they
    /// drift apart freely.
    pub meet_every: u64,
    /// The number of batches among a hundred calls. The largest batch has `batch_max` ids.
    pub batches: u8,
    /// The largest number of ids in a batch; see [`batches`](Workload::batches).
    pub batch_max: u64,
    /// The number of calls among a hundred that forget an id.
    pub forgets: u8,
    /// The number of calls among a hundred that claim an id, and complete it some calls later, or,
    /// one in four, release it.
    pub claims: u8,
    /// The number of different ids, besides those that are checked by all at once.
    pub ids: u64,
    /// The source of all ids, if it is not empty: for example ids that are hard for the subject.
    pub only: Vec<u64>,
}

/// The time that threads give with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// A time that passes with their operations.
    Virtual,
    /// The true time, since a moment that all agree on.
    Real(Instant),
}

/// The next call of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Checks an id.
    Check(u64),
    /// Checks ids at once.
    Batch(Vec<u64>),
    /// Forgets an id.
    Forget(u64),
    /// Tries to claim an id.
    Claim {
        /// The id.
        id: u64,
        /// The number of further calls after which the claim ends.
        hold: u8,
        /// True if it is completed then, rather than released.
        completes: bool,
    },
}

impl Workload {
    /// Returns a million operations of four threads, a fourth of the calls batches, nothing
    /// forgotten, ten windows in virtual time, and clocks that differ by a 50th of the window.
    pub fn of_window(window: Duration) -> Self {
        Workload {
            seed: 0,
            threads: 4,
            operations: 1_000_000,
            window,
            operations_per_window: 100_000,
            clocks: Clocks::Virtual,
            skew: window / 50,
            meet_every: 64,
            batches: 25,
            batch_max: 32,
            forgets: 0,
            claims: 0,
            ids: 100_000,
            only: Vec::new(),
        }
    }

    /// Returns the calls of each thread from one operation of the workload to another.
    pub(super) fn scripts<'a>(&'a self, pace: &'a Pace, operations: Range<u64>) -> Vec<Script<'a>> {
        let threads = u64::from(self.threads);
        let steps = operations.start / threads..operations.end / threads;
        pace.begin(steps.start);
        let script = |thread: u64| Script {
            workload: self,
            member: pace.member(thread as usize),
            thread,
            random: Random::new(hash([self.seed, thread, steps.start])),
            step: steps.start,
            end: steps.end,
        };
        (0..threads).map(script).collect()
    }

    /// Returns the number of operations of one thread within a window.
    fn steps_per_window(&self) -> u64 {
        (self.operations_per_window / u64::from(self.threads)).max(1)
    }

    /// Returns the time on a thread's clock.
    fn now(&self, thread: u64, step: u64) -> Timestamp {
        const STEPS_OF_ONE_ERROR: u64 = 1_000;
        let skew = self.skew.as_nanos() as u64;
        let error = scale(hash([self.seed ^ 1, thread, step / STEPS_OF_ONE_ERROR]), skew.saturating_add(1));
        let passed = match self.clocks {
            Clocks::Real(start) => start.elapsed(),
            Clocks::Virtual => {
                let nanos = u128::from(step) * self.window.as_nanos() / u128::from(self.steps_per_window());
                Duration::from_nanos(nanos as u64)
            }
        };
        Timestamp::from_nanos(error) + passed
    }

    fn id(&self, number: u64) -> u64 {
        match self.only.len() {
            0 => number,
            len => self.only[scale(hash([self.seed, 2, number]), len as u64) as usize],
        }
    }

    /// Returns the id that a thread has to itself at a step, if it does not meet others there.
    fn own(&self, thread: u64, step: u64) -> u64 {
        self.id(scale(hash([self.seed ^ 3, thread, step]), self.ids.max(1)))
    }

    /// Returns the id that all threads check at a step: a new one, or one from about a window ago.
    fn common(&self, step: u64) -> u64 {
        let hash = hash([self.seed, 4, step]);
        let back = match hash & 1 {
            0 => 0,
            // Around its expiry.
            _ => self.back_by_a_window(hash >> 1),
        };
        self.id((1 << 63) + step.checked_sub(back).unwrap_or(step) / COMMON)
    }

    /// Returns a number of steps that is about a window: from a 50th less to three 50ths more.
    fn back_by_a_window(&self, number: u64) -> u64 {
        let steps = self.steps_per_window();
        steps - steps / 50 + number % (steps * 4 / 50).max(1)
    }
}

/// The number of steps for which all threads check the same id.
const COMMON: u64 = 2;

/// The number of steps after a meeting during which all threads check the same ids.
const TOGETHER: u64 = 8;

/// The calls of one thread.
#[derive(Debug)]
pub(super) struct Script<'a> {
    workload: &'a Workload,
    member: Member<'a>,
    thread: u64,
    random: Random,
    step: u64,
    end: u64,
}

impl Script<'_> {
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
        if since_met == 0 {
            self.member.meet(self.step);
        }
        let forgets = self.random.chance(workload.forgets);
        let claims = self.random.chance(workload.claims);
        let call = if since_met < TOGETHER {
            let id = workload.common(self.step);
            match forgets {
                true => Call::Forget(id),
                false if claims => self.claim(id),
                false => Call::Check(id),
            }
        } else if forgets {
            Call::Forget(self.any_id())
        } else if claims {
            let id = self.any_id();
            self.claim(id)
        } else if self.random.chance(workload.batches) {
            let until_met = workload.meet_every.checked_sub(since_met).unwrap_or(u64::MAX);
            let room = until_met.min(self.end - self.step).min(workload.batch_max);
            let size = 1 + self.random.below(room.max(1));
            self.batch(size)
        } else {
            Call::Check(self.any_id())
        };
        let at = workload.now(self.thread, self.step);
        self.step += 1;
        Some((at, call))
    }
}
