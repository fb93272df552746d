//! The calls of the threads: ids that many check at once, ids that come again, batches, forgetting,
//! and clocks that differ.

use hapax::Timestamp;
use hapax::seam::random::{hash, scale};
use std::time::{Duration, Instant};

/// The number of steps for which all threads check the same id.
const COMMON: u64 = 2;

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
///
/// With [`leases`](Workload::leases), all claim the same ids from time to time, some of which were
/// claimed one lease ago: holders keep some of them for longer than their lease, renew others, and
/// end the rest at once.
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
    /// The number of calls among a hundred that claim an id for a lease, besides those of ids that
    /// all claim at once. 0: there are none of those, either.
    pub leases: u8,
    /// The length of a lease, which the subject must have been given, too.
    pub lease: Duration,
    /// The number of those claims among a hundred that have a fingerprint, one in eight of these a
    /// wrong one.
    pub fingerprints: u8,
    /// The number of operations after which the subject is stopped and started again. 0: never.
    pub restart_every: u64,
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
    /// The true time since the beginning. Threads wait for it, so that a window has about
    /// [`operations_per_window`](Workload::operations_per_window), if the machine can do as many:
    /// for subjects that read a clock of their own.
    Paced,
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
    /// Tries to claim an id for a lease.
    Lease {
        /// The id.
        id: u64,
        /// The number of its fingerprint; 0 if it has none.
        fingerprint: u8,
        /// The time after which the claim is ended, by the thread's clock.
        hold: Duration,
        /// The time after which it is renewed, once.
        renew_after: Option<Duration>,
        /// True if it is completed in the end, rather than released.
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
            leases: 0,
            lease: window / 2,
            fingerprints: 0,
            restart_every: 0,
            ids: 100_000,
            only: Vec::new(),
        }
    }

    /// Returns 200,000 operations of four threads within ten windows of real time, for a subject
    /// that reads a clock of its own; the specification is
    /// [`Semantics::of_own_clock`](crate::Semantics::of_own_clock). It takes ten windows, so the
    /// window should be short, 50 to 200 ms. On a busy machine less is seen, and nothing is called
    /// wrong that is right.
    ///
    /// ```
    /// use hapax_testing::{Semantics, Subject, Workload, verify};
    /// use hapax::{Outcome, Timestamp};
    /// use std::collections::HashMap;
    /// use std::sync::Mutex;
    /// use std::time::{Duration, Instant};
    ///
    /// const WINDOW: Duration = Duration::from_millis(50);
    ///
    /// #[derive(Default)]
    /// struct Map(Mutex<HashMap<u64, Instant>>);
    ///
    /// impl Subject for Map {
    ///     fn check(&self, id: u64, _: Timestamp) -> Option<Outcome> {
    ///         let mut accepted = self.0.lock().unwrap();
    ///         let now = Instant::now();
    ///         if accepted.get(&id).is_some_and(|&then| now < then + WINDOW) {
    ///             return Some(Outcome::Duplicate);
    ///         }
    ///         accepted.insert(id, now);
    ///         Some(Outcome::Fresh)
    ///     }
    /// }
    ///
    /// let workload = Workload { operations: 40_000, ..Workload::of_own_clock(WINDOW) };
    /// verify(&Map::default(), &workload, &Semantics::of_own_clock(WINDOW))?;
    /// # Ok::<(), Box<hapax_testing::Violation>>(())
    /// ```
    pub fn of_own_clock(window: Duration) -> Self {
        Workload {
            operations: 200_000,
            operations_per_window: 20_000,
            clocks: Clocks::Paced,
            skew: Duration::ZERO,
            ids: 20_000,
            ..Self::of_window(window)
        }
    }

    /// Returns 120,000 operations within six windows of real time, with all that a subject may
    /// have: ids are forgotten, claimed for leases of half a window, which end and are taken over,
    /// with fingerprints, and the subject is stopped and started again every other window. What a
    /// subject does not have is left out, call by call; the specification is
    /// [`Semantics::of_everything`](crate::Semantics::of_everything).
    pub fn of_everything(window: Duration) -> Self {
        Workload {
            operations: 120_000,
            forgets: 2,
            leases: 10,
            fingerprints: 50,
            restart_every: 40_000,
            ..Self::of_own_clock(window)
        }
    }

    /// Returns the number of operations of one thread within a window.
    pub(crate) fn steps_per_window(&self) -> u64 {
        (self.operations_per_window / u64::from(self.threads)).max(1)
    }

    /// Returns the time that a number of steps takes.
    pub(crate) fn time_of(&self, steps: u64) -> Duration {
        let nanos = u128::from(steps) * self.window.as_nanos() / u128::from(self.steps_per_window());
        Duration::from_nanos(nanos as u64)
    }

    /// Returns the time on a thread's clock; all threads started at the `origin`.
    pub(crate) fn now(&self, thread: u64, step: u64, origin: Instant) -> Timestamp {
        const STEPS_OF_ONE_ERROR: u64 = 1_000;
        let skew = self.skew.as_nanos() as u64;
        let error = scale(hash([self.seed ^ 1, thread, step / STEPS_OF_ONE_ERROR]), skew.saturating_add(1));
        let passed = match self.clocks {
            Clocks::Real(start) => start.elapsed(),
            Clocks::Paced => origin.elapsed(),
            Clocks::Virtual => self.time_of(step),
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
    pub(crate) fn own(&self, thread: u64, step: u64) -> u64 {
        self.id(scale(hash([self.seed ^ 3, thread, step]), self.ids.max(1)))
    }

    /// Returns the id that all threads check at a step: a new one, or one from about a window ago.
    pub(crate) fn common(&self, step: u64) -> u64 {
        let hash = hash([self.seed, 4, step]);
        let back = match hash & 1 {
            0 => 0,
            // Around its expiry.
            _ => self.back_by_a_window(hash >> 1),
        };
        self.id((1 << 63) + step.checked_sub(back).unwrap_or(step) / COMMON)
    }

    /// Returns a number of steps that is about a window: from a 50th less to three 50ths more.
    pub(crate) fn back_by_a_window(&self, number: u64) -> u64 {
        let steps = self.steps_per_window();
        steps - steps / 50 + number % (steps * 4 / 50).max(1)
    }

    /// Returns the id that all threads claim at a step: a new one, or one from about a lease ago,
    /// at the same step after a meeting, so that all claimed it then.
    pub(crate) fn contested(&self, step: u64) -> u64 {
        let hash = hash([self.seed, 5, step / COMMON]);
        let meeting = self.meet_every.max(1);
        let lease =
            (u128::from(self.steps_per_window()) * self.lease.as_nanos() / self.window.as_nanos().max(1)) as u64;
        let back = match hash & 1 {
            0 => 0,
            // From a few meetings before its end.
            _ => (lease / meeting).saturating_sub(3) + hash / 2 % 10,
        };
        self.id((1 << 62) + step.checked_sub(back * meeting).unwrap_or(step) / COMMON)
    }
}
