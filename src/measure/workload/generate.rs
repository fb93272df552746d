//! Streams that are made up.

use super::truth::Certain;
use super::{Ids, Stream, Truth, WINDOW_TICKS};
use crate::measure::{Setting, Shape, Workload};
use crate::random::{Random, mix};
use crate::strategy::Failure;
use std::ops::Range;

/// Threads, at most: their number is part of an id's.
const THREADS_MAX: usize = 256;

/// Bits of an id's number that count the ids of a thread; those above are the thread's.
const INDEX_BITS: u32 = 32;

/// What can be wrong with a setting as far as its ids go.
pub(super) fn check(setting: &Setting) -> Result<(), Failure> {
    let Workload { duplicates, distance_windows, .. } = setting.workload;
    if !(1..=THREADS_MAX).contains(&setting.threads) {
        return Err(format!("{} threads; from 1 to {THREADS_MAX} are possible", setting.threads).into());
    }
    if setting.live < setting.threads {
        return Err(format!("{} live ids for {} threads; each needs one", setting.live, setting.threads).into());
    }
    if !(0.0..1.0).contains(&duplicates) {
        return Err(format!("a share of duplicates of {duplicates}; it is at least 0, and below 1").into());
    }
    if !(distance_windows > 0.0 && distance_windows <= 1.0) {
        return Err(format!("duplicates {distance_windows} windows apart; it is above 0, and at most 1").into());
    }
    Ok(())
}

/// The streams, each made by a thread.
pub(super) fn streams<B: Ids>(setting: &Setting, seed: u64, ticks: usize) -> Result<Vec<Stream<B>>, Failure> {
    std::thread::scope(|scope| {
        let make = |thread| move || Part::new(setting, seed, thread).stream(ticks);
        let makers: Vec<_> = (0..setting.threads).map(|thread| scope.spawn(make(thread))).collect();
        makers.into_iter().map(|maker| maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// What one thread's stream is made from.
struct Part<'a> {
    workload: &'a Workload,
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
        Part { workload: &setting.workload, certain, seed, thread, live }
    }

    fn stream<B: Ids>(&self, ticks: usize) -> Result<Stream<B>, Failure> {
        match &self.workload.shape {
            Shape::Uniform => Ok(self.redelivered(ticks)),
            other => Err(format!("{other:?}: not yet").into()),
        }
    }

    /// New ids in their order, and between them redeliveries of recent ones.
    fn redelivered<B: Ids>(&self, ticks: usize) -> Stream<B> {
        let fresh_ids = self.live * ticks / WINDOW_TICKS;
        let expected = fresh_ids as f64 / (1.0 - self.workload.duplicates);
        let mut stream = Stream::with_capacity(expected as usize + expected as usize / 50 + 1_000);
        let mut random = Random::new(mix(self.seed) ^ self.thread as u64);
        let mut fresh = 0;
        for tick in 0..ticks {
            let fresh_until = self.fresh_at(tick + 1);
            while fresh < fresh_until {
                let is_redelivery = random.unit() < self.workload.duplicates && fresh > 0;
                let (index, truth) = if is_redelivery {
                    let recent = self.recent(fresh, tick);
                    let index = recent.start + random.below(recent.end - recent.start);
                    (index, self.certain.after(tick - self.tick_of(index)))
                } else {
                    fresh += 1;
                    (fresh - 1, Truth::New)
                };
                self.push(index, &mut stream.ids);
                stream.truth.push(truth);
            }
            stream.end_tick();
        }
        stream
    }

    /// New ids before a tick.
    fn fresh_at(&self, tick: usize) -> u64 {
        (self.live * tick / WINDOW_TICKS) as u64
    }

    /// The tick in which a new id comes: the first after which there are more.
    fn tick_of(&self, index: u64) -> usize {
        ((index as usize + 1) * WINDOW_TICKS).div_ceil(self.live) - 1
    }

    /// The new ids that redeliveries reach: never those that may have expired.
    fn recent(&self, fresh: u64, tick: usize) -> Range<u64> {
        let reach = (self.live as f64 * self.workload.distance_windows).ceil() as u64;
        let live = self.fresh_at((tick + 1).saturating_sub(WINDOW_TICKS));
        fresh.saturating_sub(reach).max(live).min(fresh - 1)..fresh
    }

    /// Adds the id of a number.
    fn push(&self, index: u64, ids: &mut impl Ids) {
        let number = (self.thread as u64) << INDEX_BITS | index;
        match self.workload.shape {
            Shape::Prefixes => ids.push_alike(number),
            _ => ids.push(mix(self.seed.wrapping_add(number))),
        }
    }
}
