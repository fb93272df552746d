//! What the threads do: ids that many check at once, ids that come again, batches, forgetting, and clocks that differ.

use super::pace::{Member, Pace};
use hapax::Timestamp;
use hapax::tier::random::{Random, hash, scale};
use std::ops::Range;
use std::time::{Duration, Instant};

/// What threads do to a subject, determined by a seed. (What they do, not when: the same workload gives another history each
/// time.)
///
/// ```
/// use hapax_testing::{Clocks, Workload};
/// use std::time::Duration;
///
/// let window = Duration::from_secs(60);
/// let workload = Workload { threads: 8, forgets: 2, ..Workload::of_window(window) };
/// ```
///
/// Each thread does its share of the operations. Now and then all wait for each other, and then check the same ids, in the same order, at
/// the same moment; some of these ids are new, others have been accepted one window ago, and some are being forgotten meanwhile. In
/// between, threads check ids that are theirs, ids that others have checked just now, and ids that others have checked a window ago,
/// one by one or in batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Where the random numbers come from.
    pub seed: u64,
    /// How many threads there are. More than processors are useful, too: then the system interrupts them anywhere.
    pub threads: u16,
    /// How many operations there are, of all threads.
    pub operations: u64,
    /// How long the subject remembers an id.
    pub window: Duration,
    /// How many operations there are within a window, so how fast time passes on [`Clocks::Virtual`].
    pub operations_per_window: u64,
    /// What time the threads give.
    pub clocks: Clocks,
    /// By how much the threads' clocks differ at most. Each thread's error changes now and then, so its clock may go backwards.
    pub skew: Duration,
    /// After how many of its operations a thread waits for the others. 0: never, and they drift apart as far as they do.
    pub meet_every: u64,
    /// How many of a hundred calls are batches, and how many ids a batch has at most.
    pub batches: u8,
    /// See [`batches`](Workload::batches).
    pub batch_max: u64,
    /// How many of a hundred calls forget an id.
    pub forgets: u8,
    /// How many of a hundred calls claim an id, and complete it some calls later, or, one in four, release it.
    pub claims: u8,
    /// How many different ids there are, but for those that are checked by all at once.
    pub ids: u64,
    /// If it is not empty, all ids are taken from here: those that are hard for the subject, say.
    pub only: Vec<u64>,
}

/// What time threads give with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// A time that passes with the operations that they do.
    Virtual,
    /// The true time, since a moment that all agree on.
    Real(Instant),
}

/// What a thread does next.
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
        /// Which one.
        id: u64,
        /// After how many more calls the claim ends.
        hold: u8,
        /// Whether it is completed then, rather than released.
        completes: bool,
    },
}

impl Workload {
    /// A million operations of four threads, a fourth of the calls batches, nothing forgotten, ten windows in virtual time,
    /// and clocks that differ by a 50th of the window.
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

    /// What each thread does from one operation of the workload to another.
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

    /// How many operations of one thread there are within a window.
    fn steps_per_window(&self) -> u64 {
        (self.operations_per_window / u64::from(self.threads)).max(1)
    }

    /// The time on a thread's clock.
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

    /// The id that a thread has to itself at a step, if it does not meet others there.
    fn own(&self, thread: u64, step: u64) -> u64 {
        self.id(scale(hash([self.seed ^ 3, thread, step]), self.ids.max(1)))
    }

    /// The id that all threads check at a step: a new one, or one from about a window ago.
    fn common(&self, step: u64) -> u64 {
        let hash = hash([self.seed, 4, step]);
        let back = match hash & 1 {
            0 => 0,
            // Around where it expires.
            _ => self.back_by_a_window(hash >> 1),
        };
        self.id((1 << 63) + step.checked_sub(back).unwrap_or(step) / COMMON)
    }

    /// So many steps ago is about a window ago: from a 50th less to three 50ths more.
    fn back_by_a_window(&self, number: u64) -> u64 {
        let steps = self.steps_per_window();
        steps - steps / 50 + number % (steps * 4 / 50).max(1)
    }
}

/// All threads check an id for so many steps.
const COMMON: u64 = 2;

/// So many steps after they have met, all threads check the same ids.
const TOGETHER: u64 = 8;

/// What one thread does.
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
            // What was checked just now, by whomever.
            0..=2 => workload.own(other, self.step.saturating_sub(self.random.below(8))),
            // What was checked a window ago.
            3 => {
                let back = workload.back_by_a_window(self.random.next());
                workload.own(other, self.step.checked_sub(back).unwrap_or(self.step))
            }
            // What all have checked just now.
            4 => workload.common(self.step.saturating_sub(self.random.below(64))),
            _ => workload.own(self.thread, self.step),
        }
    }

    fn claim(&mut self, id: u64) -> Call {
        // At once, mostly: then it ends while others are about to begin with the same id.
        let hold = self.random.below(8).saturating_sub(4) as u8;
        Call::Claim { id, hold, completes: self.random.below(4) > 0 }
    }

    /// The ids of a batch; the steps go on as if they were checked one by one.
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
