//! Generated streams.

use super::truth::{Certain, Ledger};
use super::zipf::{self, Zipf};
use super::{Ids, LEAD_TICKS_MAX, Stream, Truth, WINDOW_TICKS};
use crate::measure::{IdKind, Setting, Shape, Workload};
use crate::strategy::Failure;
use hapax::seam::random::{Random, mix};
use std::ops::Range;

/// The largest number of threads: a thread's number is part of an id's.
const THREADS_MAX: usize = 256;

/// Bits of an id's number that count the ids of a thread; those above are the thread's.
const INDEX_BITS: u32 = 32;

/// Ids that `Zipf` draws from, for each that is live: some are still new after many windows.
const POPULATION: u64 = 10;

/// The most draws that `Zipf` takes in a window for each live id. With large exponents almost all
/// are redeliveries.
const DRAWS_MAX: f64 = 100.0;

/// Makes the streams, each in a thread.
pub(super) fn streams<B: Ids>(setting: &Setting, seed: u64, ticks: usize) -> Result<Vec<Stream<B>>, Failure> {
    let made: Result<Vec<Made<B>>, Failure> = std::thread::scope(|scope| {
        let make = |thread| move || Part::new(setting, seed, thread).stream(ticks);
        let makers: Vec<_> = (0..setting.threads).map(|thread| scope.spawn(make(thread))).collect();
        makers.into_iter().map(|maker| maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let (mut streams, shared): (Vec<_>, Vec<_>) = made?.into_iter().unzip();
    for (thread, stream) in streams.iter_mut().enumerate() {
        mark_shared(stream, thread, &shared);
    }
    Ok(streams)
}

/// A thread's stream, and the ids of other threads that it checks within the lead.
type Made<B> = (Stream<B>, Vec<Shared>);

/// An id of another thread: that thread, and the id's number there.
#[derive(Clone, Copy)]
struct Shared {
    thread: usize,
    index: u64,
}

/// Marks the new ids of a thread that others check within the lead.
fn mark_shared<B>(stream: &mut Stream<B>, thread: usize, shared: &[Vec<Shared>]) {
    let own = shared.iter().flatten().filter(|shared| shared.thread == thread);
    let mut indices: Vec<u64> = own.map(|shared| shared.index).collect();
    if indices.is_empty() {
        return;
    }
    indices.sort_unstable();
    indices.dedup();
    let mut indices = indices.into_iter().peekable();
    let new = stream.truth.iter_mut().filter(|truth| **truth == Truth::New);
    for (index, truth) in (0..).zip(new) {
        if indices.next_if_eq(&index).is_some() {
            *truth = Truth::SharedNew;
        }
    }
    debug_assert!(indices.peek().is_none(), "an id is new before it comes again");
}

/// Checks a setting as far as its ids go.
pub(super) fn check(setting: &Setting) -> Result<(), Failure> {
    let Workload { ref shape, duplicates, distance_windows } = setting.workload;
    check_threads(setting.threads)?;
    if setting.live < setting.threads {
        return Err(format!("{} live ids for {} threads; each needs one", setting.live, setting.threads).into());
    }
    match shape {
        Shape::Zipf { exponent } if !(0.0..=10.0).contains(exponent) => {
            Err(format!("an exponent of {exponent}; it is at least 0, and at most 10").into())
        }
        Shape::Zipf { .. } => Ok(()),
        _ if !(0.0..1.0).contains(&duplicates) => {
            Err(format!("a share of duplicates of {duplicates}; it is at least 0, and below 1").into())
        }
        _ if !(distance_windows > 0.0 && distance_windows <= 1.0) => {
            Err(format!("redeliveries from {distance_windows} windows back; it is above 0, and at most 1").into())
        }
        _ => Ok(()),
    }
}

/// Returns the checks that are to be expected in a window.
pub(in crate::measure) fn window_checks(setting: &Setting) -> f64 {
    let live = setting.live as f64;
    match setting.workload.shape {
        Shape::Zipf { exponent } => zipf::draws_for(live, setting.live as u64 * POPULATION, exponent),
        _ => live / (1.0 - setting.workload.duplicates),
    }
}

/// Checks that this many streams can be made.
fn check_threads(threads: usize) -> Result<(), Failure> {
    match threads {
        1..=THREADS_MAX => Ok(()),
        _ => Err(format!("{threads} threads; from 1 to {THREADS_MAX} are possible").into()),
    }
}

/// The parameters from which one thread's stream is made.
#[derive(Clone)]
struct Part<'a> {
    setting: &'a Setting,
    workload: &'a Workload,
    ids: IdKind,
    certain: Certain,
    seed: u64,
    thread: usize,
    /// New ids in a window.
    live: usize,
}

impl<'a> Part<'a> {
    fn new(setting: &'a Setting, seed: u64, thread: usize) -> Self {
        let until = |thread: usize| setting.live * thread / setting.threads;
        let (live, certain) = (until(thread + 1) - until(thread), Certain::with_threads(setting.threads));
        Part { setting, workload: &setting.workload, ids: setting.ids, certain, seed, thread, live }
    }

    fn stream<B: Ids>(&self, ticks: usize) -> Result<Made<B>, Failure> {
        match self.workload.shape {
            Shape::Zipf { exponent } => Ok((self.drawn(ticks, exponent)?, Vec::new())),
            _ => Ok(self.redelivered(ticks)),
        }
    }

    /// Creates an empty stream with room for the checks that are to be expected in a number of
    /// ticks, given the checks in a window.
    fn with_room_for<B: Ids>(&self, checks: f64, ticks: usize) -> Stream<B> {
        let expected = checks * ticks as f64 / WINDOW_TICKS as f64;
        Stream::with_capacity(self.ids, (1.02 * expected) as usize + 1_000)
    }

    /// Makes a stream of new ids in their order, with redeliveries of recent ones between them.
    fn redelivered<B: Ids>(&self, ticks: usize) -> Made<B> {
        let mut stream = self.with_room_for::<B>(self.live as f64 / (1.0 - self.workload.duplicates), ticks);
        let mut random = self.random();
        let (mut fresh, mut shared) = (0, Vec::new());
        for tick in 0..ticks {
            let fresh_until = self.fresh_at(tick + 1);
            while fresh < fresh_until {
                let truth = match self.redelivery(&mut random, fresh, tick) {
                    Some(index) => {
                        let (owner, index) = self.owner(index, tick, &mut random);
                        owner.push(index, &mut stream.ids);
                        self.again(&owner, index, tick, &mut shared)
                    }
                    None => {
                        self.push(fresh, &mut stream.ids);
                        fresh += 1;
                        Truth::New
                    }
                };
                stream.truth.push(truth);
            }
            stream.end_tick();
        }
        (stream, shared)
    }

    /// Returns the redelivery that comes now, out of the new ids that have come; if none, the next
    /// id is new. `fresh` ids were.
    fn redelivery(&self, random: &mut Random, fresh: u64, tick: usize) -> Option<u64> {
        if fresh == 0 || random.unit() >= self.workload.duplicates {
            return None;
        }
        let recent = self.recent(fresh, tick);
        Some(recent.start + random.below(recent.end - recent.start))
    }

    /// Returns the thread whose id comes again, and the id's number there: every second redelivery
    /// is one of another thread's ids, as when a consumer's session ends and another one takes
    /// over. So strategies that are wrong if two threads check an id at once are seen.
    fn owner(&self, index: u64, tick: usize, random: &mut Random) -> (Self, u64) {
        let threads = self.setting.threads as u64;
        if threads == 1 || random.below(2) == 0 {
            return (self.clone(), index);
        }
        let other = (self.thread as u64 + 1 + random.below(threads - 1)) % threads;
        let other = Part::new(self.setting, self.seed, other as usize);
        match other.fresh_at(tick + 1) {
            0 => (self.clone(), index),
            // Threads differ by an id at most in how many they have had.
            had => (other, index.min(had - 1)),
        }
    }

    /// Returns the truth about a redelivery, and records it if its owner may not have come to it.
    fn again(&self, owner: &Self, index: u64, tick: usize, shared: &mut Vec<Shared>) -> Truth {
        let age_ticks = tick - owner.tick_of(index);
        if owner.thread != self.thread && age_ticks <= LEAD_TICKS_MAX {
            shared.push(Shared { thread: owner.thread, index });
            return Truth::SharedAgain;
        }
        self.certain.after(age_ticks)
    }

    /// Makes a stream of ids that are drawn by their frequency.
    fn drawn<B: Ids>(&self, ticks: usize, exponent: f64) -> Result<Stream<B>, Failure> {
        let population = self.live as u64 * POPULATION;
        let draws = zipf::draws_for(self.live as f64, population, exponent);
        if draws > self.live as f64 * DRAWS_MAX {
            let live = self.live;
            return Err(format!(
                "with the exponent {exponent} it takes {draws:.1e} ids in a window to see {live} distinct ones, more than \
                 {DRAWS_MAX} times as many; take a smaller exponent, or fewer live ids"
            )
            .into());
        }
        let mut stream = self.with_room_for::<B>(draws, ticks);
        let (zipf, mut random) = (Zipf::new(population, exponent), self.random());
        let mut ledger = Ledger::new(self.certain);
        for tick in 0..ticks {
            let until = (draws * (tick + 1) as f64 / WINDOW_TICKS as f64) as usize;
            while stream.truth.len() < until {
                let index = zipf.draw(&mut random) - 1;
                self.push(index, &mut stream.ids);
                stream.truth.push(ledger.check(index, tick));
            }
            stream.end_tick();
        }
        Ok(stream)
    }

    fn random(&self) -> Random {
        Random::new(mix(self.seed) ^ self.thread as u64)
    }

    /// Returns the number of new ids before a tick.
    fn fresh_at(&self, tick: usize) -> u64 {
        (self.live * tick / WINDOW_TICKS) as u64
    }

    /// Returns the tick in which a new id comes: the first after which there are more.
    fn tick_of(&self, index: u64) -> usize {
        ((index as usize + 1) * WINDOW_TICKS).div_ceil(self.live) - 1
    }

    /// Returns the new ids that redeliveries reach: never those that may have expired.
    fn recent(&self, fresh: u64, tick: usize) -> Range<u64> {
        let reach = (self.live as f64 * self.workload.distance_windows).ceil() as u64;
        let live = self.fresh_at((tick + 1).saturating_sub(WINDOW_TICKS));
        fresh.saturating_sub(reach).max(live).min(fresh - 1)..fresh
    }

    /// Adds the id of a number.
    fn push(&self, index: u64, ids: &mut impl Ids) {
        let number = (self.thread as u64) << INDEX_BITS | index;
        ids.push(mix(self.seed.wrapping_add(number)));
    }
}
