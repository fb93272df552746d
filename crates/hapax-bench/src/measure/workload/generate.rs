//! Generated streams.

use super::truth::{Certain, Ledger};
use super::{Ids, LEAD_TICKS_MAX, Stream, Truth, WINDOW_TICKS};
use crate::measure::{Setting, Shape, Workload};
use crate::strategy::Failure;
use hapax::seam::random::mix;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};
use std::ops::Range;

/// The largest number of threads: a thread's number is part of an id's.
const THREADS_MAX: usize = 256;

/// The most bytes of a message that is decoded between two checks.
const WORK_MAX: usize = 1 << 20;

/// Bits of an id's number that count the ids of a thread; those above are the thread's.
const INDEX_BITS: u32 = 32;

/// Ids that `Zipf` draws from, for each that is live: some are still new after many windows.
const POPULATION: u64 = 10;

/// The most draws that `Zipf` takes in a window for each live id. With large exponents almost all
/// are redeliveries.
const DRAWS_MAX: f64 = 100.0;

/// Makes the streams, each in a thread.
pub(super) fn streams<B: Ids>(setting: &Setting, seed: u64, ticks: usize) -> Vec<Stream<B>> {
    std::thread::scope(|scope| {
        let make = |thread| move || Part::new(setting, seed, thread).stream(ticks);
        let makers: Vec<_> = (0..setting.threads).map(|thread| scope.spawn(make(thread))).collect();
        makers.into_iter().map(|maker| maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Checks that a setting makes sense.
pub(in crate::measure) fn check(setting: &Setting) -> Result<(), Failure> {
    let Setting { live, threads, batch, ahead, rate, work, .. } = *setting;
    let Workload { shape, duplicates, distance_windows } = setting.workload;
    let wrong = match shape {
        _ if !(1..=THREADS_MAX).contains(&threads) => {
            format!("{threads} threads; from 1 to {THREADS_MAX} are possible")
        }
        _ if batch == 0 => "a batch of 0 ids; it has at least one".into(),
        _ if ahead && (batch > 1 || rate.is_some()) => {
            format!("batches of {batch} at the rate {rate:?}, read ahead; those are one by one, as fast as they can be")
        }
        _ if work > 0 && (batch > 1 || rate.is_some()) => {
            format!("batches of {batch} at the rate {rate:?}, with work; that is between ids that come one by one")
        }
        _ if work > WORK_MAX => format!("messages of {work} bytes; they have at most {WORK_MAX}"),
        _ if rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) => {
            format!("a rate of {rate:?} ids a second; it has to be above 0")
        }
        _ if live < threads => format!("{live} live ids for {threads} threads; each needs one"),
        Shape::Zipf { exponent } if !(0.0..=10.0).contains(&exponent) => {
            format!("an exponent of {exponent}; it is at least 0, and at most 10")
        }
        Shape::Zipf { exponent } if window_checks(setting) > live as f64 * DRAWS_MAX => format!(
            "with the exponent {exponent} it takes {:.1e} ids in a window to see {live} distinct ones, more than \
             {DRAWS_MAX} times as many; take a smaller exponent, or fewer live ids",
            window_checks(setting)
        ),
        Shape::Uniform if !(0.0..1.0).contains(&duplicates) => {
            format!("a share of duplicates of {duplicates}; it is at least 0, and below 1")
        }
        Shape::Uniform if !(distance_windows > 0.0 && distance_windows <= 1.0) => {
            format!("redeliveries from {distance_windows} windows back; it is above 0, and at most 1")
        }
        _ => return Ok(()),
    };
    Err(wrong.into())
}

/// Returns the checks that are to be expected in a window.
pub(in crate::measure) fn window_checks(setting: &Setting) -> f64 {
    let live = setting.live as f64;
    match setting.workload.shape {
        Shape::Zipf { exponent } => draws_for(live, setting.live as u64 * POPULATION, exponent),
        Shape::Uniform => live / (1.0 - setting.workload.duplicates),
    }
}

/// Returns the expected number of draws that show this many distinct ranks.
fn draws_for(distinct: f64, ranks: u64, exponent: f64) -> f64 {
    let groups = groups(ranks, exponent);
    let sum: f64 = groups.iter().map(|(count, weight)| count * weight).sum();
    let expected =
        |draws: f64| -> f64 { groups.iter().map(|(count, weight)| -count * (-draws * weight / sum).exp_m1()).sum() };
    let (mut low, mut high) = (distinct, 2.0 * distinct);
    while expected(high) < distinct && high.is_finite() {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        *(if expected(middle) < distinct { &mut low } else { &mut high }) = middle;
    }
    high
}

/// Returns all ranks, in groups with about the same weight: how many, and which.
fn groups(ranks: u64, exponent: f64) -> Vec<(f64, f64)> {
    let mut groups = Vec::new();
    let mut first = 1;
    while first <= ranks {
        // Ranks are taken one by one where they differ; then a thousandth more each time.
        let end = (first + (first / 1_000).max(1)).min(ranks + 1);
        let middle = (first + end - 1) as f64 / 2.0;
        groups.push(((end - first) as f64, middle.powf(-exponent)));
        first = end;
    }
    groups
}

/// The parameters from which one thread's stream is made.
#[derive(Clone, Copy)]
struct Part<'a> {
    setting: &'a Setting,
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
        Part { setting, certain, seed, thread, live }
    }

    fn stream<B: Ids>(&self, ticks: usize) -> Stream<B> {
        let checks = window_checks(&Setting { live: self.live, ..self.setting.clone() });
        let expected = checks * ticks as f64 / WINDOW_TICKS as f64;
        let mut stream = Stream::with_capacity(self.setting.ids, (1.02 * expected) as usize + 1_000);
        let random = SmallRng::seed_from_u64(mix(self.seed) ^ self.thread as u64);
        match self.setting.workload.shape {
            Shape::Zipf { exponent } => self.draw(&mut stream, random, ticks, checks, exponent),
            Shape::Uniform => self.redeliver(&mut stream, random, ticks),
        }
        stream
    }

    /// Adds new ids in their order, with redeliveries of recent ones between them.
    fn redeliver<B: Ids>(&self, stream: &mut Stream<B>, mut random: SmallRng, ticks: usize) {
        let mut fresh = 0;
        for tick in 0..ticks {
            let fresh_until = self.fresh_at(tick + 1);
            while fresh < fresh_until {
                let truth = match self.redelivery(&mut random, fresh, tick) {
                    Some(index) => {
                        let (owner, index) = self.owner(index, tick, &mut random);
                        owner.push(index, &mut stream.ids);
                        match tick - owner.tick_of(index) {
                            // Its owner may not have come to it.
                            0..=LEAD_TICKS_MAX if owner.thread != self.thread => Truth::Shared,
                            age_ticks => self.certain.after(age_ticks),
                        }
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
    }

    /// Returns the redelivery that comes now, out of the new ids that have come; if none, the next
    /// id is new. `fresh` ids were.
    fn redelivery(&self, random: &mut SmallRng, fresh: u64, tick: usize) -> Option<u64> {
        let comes = fresh > 0 && random.random_bool(self.setting.workload.duplicates);
        comes.then(|| random.random_range(self.recent(fresh, tick)))
    }

    /// Returns the thread whose id comes again, and the id's number there: every second redelivery
    /// is one of another thread's ids, as when a consumer's session ends and another one takes
    /// over. So strategies that are wrong if two threads check an id at once are seen.
    fn owner(&self, index: u64, tick: usize, random: &mut SmallRng) -> (Self, u64) {
        let threads = self.setting.threads;
        if threads == 1 || random.random_bool(0.5) {
            return (*self, index);
        }
        let other = (self.thread + random.random_range(1..threads)) % threads;
        let other = Part::new(self.setting, self.seed, other);
        match other.fresh_at(tick + 1) {
            0 => (*self, index),
            // Threads differ by an id at most in how many they have had.
            had => (other, index.min(had - 1)),
        }
    }

    /// Adds ids that are drawn by their frequency: as many in a window as there are checks.
    fn draw<B: Ids>(&self, stream: &mut Stream<B>, mut random: SmallRng, ticks: usize, checks: f64, exponent: f64) {
        let zipf = Zipf::new((self.live as u64 * POPULATION) as f64, exponent).expect("the setting was checked");
        let mut ledger = Ledger::new(self.certain);
        for tick in 0..ticks {
            let until = (checks * (tick + 1) as f64 / WINDOW_TICKS as f64) as usize;
            while stream.truth.len() < until {
                let index = zipf.sample(&mut random) as u64 - 1;
                self.push(index, &mut stream.ids);
                stream.truth.push(ledger.check(index, tick));
            }
            stream.end_tick();
        }
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
        let reach = (self.live as f64 * self.setting.workload.distance_windows).ceil() as u64;
        let live = self.fresh_at((tick + 1).saturating_sub(WINDOW_TICKS));
        fresh.saturating_sub(reach).max(live).min(fresh - 1)..fresh
    }

    /// Adds the id of a number.
    fn push(&self, index: u64, ids: &mut impl Ids) {
        let number = (self.thread as u64) << INDEX_BITS | index;
        ids.push(mix(self.seed.wrapping_add(number)));
    }
}
