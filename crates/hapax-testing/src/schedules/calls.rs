//! The calls of each schedule: few threads, few calls, few ids, and times around the ends of
//! windows and leases.

use crate::workload::Call;
use hapax::Timestamp;
use hapax::tier::random::{Random, hash};
use std::time::Duration;

/// The schedules to try, and the calls of their threads, determined by a seed.
///
/// Proportions are of a hundred calls. What a subject does not have is left out, call by call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedules {
    /// The seed of the random numbers.
    pub seed: u64,
    /// The number of schedules, each with calls of its own and a new subject.
    pub schedules: u32,
    /// The number of threads. Two find most races, three nearly all.
    pub threads: u16,
    /// The number of calls of each thread.
    pub calls: u8,
    /// The number of different ids.
    pub ids: u64,
    /// The time for which the subject remembers an id.
    pub window: Duration,
    /// The length of a lease, if claims have one.
    pub lease: Option<Duration>,
    /// The number of batches, of up to four ids, among a hundred calls.
    pub batches: u8,
    /// The number of calls among a hundred that forget an id.
    pub forgets: u8,
    /// The number of calls among a hundred that claim an id.
    pub claims: u8,
    /// The largest number of steps of one schedule: locks taken, atomics accessed. A schedule with
    /// more is taken for one in which threads go round for ever.
    pub steps_max: u32,
}

impl Schedules {
    /// Returns 10,000 schedules of three threads with four calls each on two ids: checks, a fourth
    /// of them batches, and nothing forgotten or claimed.
    pub fn of_window(window: Duration) -> Self {
        Schedules {
            seed: 0,
            schedules: 10_000,
            threads: 3,
            calls: 4,
            ids: 2,
            window,
            lease: None,
            batches: 25,
            forgets: 0,
            claims: 0,
            steps_max: 100_000,
        }
    }

    /// Returns the calls of one thread in one schedule.
    pub(super) fn script(&self, schedule: u32, thread: u16) -> Vec<(Timestamp, Call)> {
        let random = &mut Random::new(hash([self.seed, u64::from(schedule), u64::from(thread)]));
        let mut at = Timestamp::from_secs(1_000);
        let mut script = Vec::with_capacity(usize::from(self.calls));
        for _ in 0..self.calls {
            at = at + self.step(random);
            script.push((at, self.call(random)));
        }
        script
    }

    /// Returns the time between two calls of a thread: none, mostly, or what ends a window or a
    /// lease, or nearly does.
    fn step(&self, random: &mut Random) -> Duration {
        const NANOSECOND: Duration = Duration::from_nanos(1);
        match (random.below(16), self.lease) {
            (0, _) => self.window,
            (1, _) => self.window.saturating_sub(NANOSECOND),
            (2, _) => self.window * 2,
            (3 | 4, Some(lease)) => lease,
            (5, Some(lease)) => lease.saturating_sub(NANOSECOND),
            _ => Duration::ZERO,
        }
    }

    fn call(&self, random: &mut Random) -> Call {
        let id = random.below(self.ids.max(1));
        if random.chance(self.forgets) {
            Call::Forget(id)
        } else if random.chance(self.claims) {
            self.claim(id, random)
        } else if random.chance(self.batches) {
            let size = 1 + random.below(4);
            Call::Batch((0..size).map(|_| random.below(self.ids.max(1))).collect())
        } else {
            Call::Check(id)
        }
    }

    fn claim(&self, id: u64, random: &mut Random) -> Call {
        let completes = random.below(4) > 0;
        let Some(lease) = self.lease else {
            return Call::Claim { id, hold: random.below(3) as u8, completes };
        };
        let hold = lease * random.below(3) as u32;
        let renew_after = (random.below(3) == 0).then_some(lease / 2);
        Call::Lease { id, fingerprint: 0, hold, renew_after, completes }
    }
}
