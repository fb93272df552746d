//! Runs one strategy over the stream, in a process of its own.

use crate::case::{Case, Kind, Measurement, Mode};
use crate::pace::Pace;
use crate::resident;
use crate::stream::{Ids, Part, Stream, Uuids, WINDOW, WINDOW_TICKS, time};
use hapax::strategy::{Plan, Strategy, Visitor, visit};
use std::ops::Range;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Ids in a batch.
const BATCH: usize = 1024;

/// A stretch of the stream: so many ticks, or fewer if they take too long.
#[derive(Clone, Copy)]
struct Phase {
    ticks_min: usize,
    ticks_max: usize,
    time_max: Duration,
}

/// Four windows, since a table is not in its steady state before all of its slots have been used; two, at which expiry is under way, for
/// those that take very long.
const WARM_UP: Phase =
    Phase { ticks_min: 2 * WINDOW_TICKS, ticks_max: 4 * WINDOW_TICKS, time_max: Duration::from_secs(10) };

/// Two windows; half of one for those that take very long.
const MEASURED: Phase =
    Phase { ticks_min: WINDOW_TICKS / 2, ticks_max: 2 * WINDOW_TICKS, time_max: Duration::from_secs(5) };

/// What does not forget is filled once.
const FILL: Phase = Phase { ticks_min: WINDOW_TICKS, ticks_max: WINDOW_TICKS, time_max: Duration::MAX };
const NOTHING: Phase = Phase { ticks_min: 0, ticks_max: 0, time_max: Duration::ZERO };

/// Measures a strategy; none if there is none of that name.
pub fn measure(case: &Case) -> Option<Measurement> {
    match case.setting.kind {
        Kind::U64 => visit(&case.strategy, Drive::<Vec<u64>>(case, std::marker::PhantomData)),
        Kind::Text => visit(&case.strategy, Drive::<Uuids>(case, std::marker::PhantomData)),
    }
}

struct Drive<'a, B>(&'a Case, std::marker::PhantomData<B>);

impl<B: Ids> Visitor<B::Id> for Drive<'_, B> {
    type Output = Measurement;

    fn visit<S: Strategy<B::Id>>(self) -> Measurement {
        let setting = self.0.setting;
        let (warm_up, measured, after) = match S::EXPIRES {
            true => (WARM_UP, MEASURED, 0),
            false => (NOTHING, FILL, 1),
        };
        let streams = generate::<B>(self.0, warm_up.ticks_max + measured.ticks_max + after);
        let bytes_before = resident::bytes();
        let plan = Plan { window: WINDOW, live: setting.live, threads: setting.threads };
        let strategy = S::new(&plan).expect("there is memory for it");
        let course = Course { strategy: &strategy, batched: self.0.mode == Mode::Batched, warm_up, measured };
        let mut measurement = Measurement::default();
        let ticks = course.run(&streams, &mut measurement);
        measurement.bytes = resident::bytes().saturating_sub(bytes_before);
        measurement.held = strategy.held().unwrap_or(setting.live as u64);
        match S::EXPIRES {
            true => ask_for_known(&strategy, &streams, &ticks, &mut measurement),
            false => ask_for_unknown(&strategy, &streams, &mut measurement),
        }
        measurement
    }
}

/// The parts of the stream, each made by a thread.
pub fn generate<B: Ids>(case: &Case, ticks: usize) -> Vec<Stream<B>> {
    let Case { setting, seed, .. } = *case;
    std::thread::scope(|scope| {
        let part = |thread| Part { seed, thread, live: setting.live / setting.threads, ticks };
        let makers: Vec<_> = (0..setting.threads).map(|i| scope.spawn(move || Stream::generate(part(i)))).collect();
        makers.into_iter().map(|maker| maker.join().expect("a stream can be made")).collect()
    })
}

/// A strategy on its way over the stream.
struct Course<'a, S> {
    strategy: &'a S,
    batched: bool,
    warm_up: Phase,
    measured: Phase,
}

/// What one thread has seen in a phase.
struct Leg {
    answers: Answers,
    begun: Instant,
    ended: Instant,
    /// The tick after its last.
    tick: usize,
    evicted: u64,
}

#[derive(Default)]
struct Answers {
    fresh: u64,
    invented: u64,
    duplicates: u64,
    missed: u64,
}

impl Answers {
    #[inline(always)]
    fn add(&mut self, is_fresh: bool, answer: bool) {
        self.fresh += u64::from(is_fresh);
        self.duplicates += u64::from(!is_fresh);
        self.invented += u64::from(is_fresh & !answer);
        self.missed += u64::from(!is_fresh & answer);
    }
}

impl<S> Course<'_, S> {
    /// Runs all threads; the tick at which each has stopped.
    fn run<B: Ids>(&self, streams: &[Stream<B>], measurement: &mut Measurement) -> Vec<usize>
    where
        S: Strategy<B::Id>,
    {
        let (pace, barrier) = (&Pace::new(streams.len()), &Barrier::new(streams.len()));
        let legs: Vec<Leg> = std::thread::scope(|scope| {
            let run = |(thread, stream)| scope.spawn(move || self.run_thread(stream, thread, pace, barrier));
            let threads: Vec<_> = streams.iter().enumerate().map(run).collect();
            threads.into_iter().map(|thread| thread.join().expect("a strategy does not panic")).collect()
        });
        for Leg { answers, evicted, .. } in &legs {
            measurement.fresh += answers.fresh;
            measurement.invented += answers.invented;
            measurement.duplicates += answers.duplicates;
            measurement.missed += answers.missed;
            measurement.evicted += evicted;
        }
        let begun = legs.iter().map(|leg| leg.begun).min().expect("there is a thread");
        let ended = legs.iter().map(|leg| leg.ended).max().expect("there is a thread");
        measurement.nanos = (ended - begun).as_nanos() as u64;
        legs.iter().map(|leg| leg.tick).collect()
    }

    fn run_thread<B: Ids>(&self, stream: &Stream<B>, thread: usize, pace: &Pace, barrier: &Barrier) -> Leg
    where
        S: Strategy<B::Id>,
    {
        let evicted = || if thread == 0 { self.strategy.evicted_live().unwrap_or(0) } else { 0 };
        let run = |from, phase| {
            pace.enter(thread, from);
            barrier.wait();
            let leg = self.run_phase(stream, from, phase, |tick| pace.keep(thread, tick));
            pace.leave(thread);
            barrier.wait();
            leg
        };
        let warm_up = run(0, self.warm_up);
        let before = evicted();
        let leg = run(warm_up.tick, self.measured);
        Leg { evicted: evicted() - before, ..leg }
    }

    fn run_phase<B: Ids>(&self, stream: &Stream<B>, from: usize, phase: Phase, keep_pace: impl Fn(usize)) -> Leg
    where
        S: Strategy<B::Id>,
    {
        let begun = Instant::now();
        let mut answers = Answers::default();
        let mut tick = from;
        while tick < from + phase.ticks_max {
            self.run_tick(stream, tick, &mut answers);
            tick += 1;
            if tick >= from + phase.ticks_min && begun.elapsed() > phase.time_max {
                break;
            }
            keep_pace(tick);
        }
        Leg { answers, begun, ended: Instant::now(), tick, evicted: 0 }
    }

    #[inline(never)]
    fn run_tick<B: Ids>(&self, stream: &Stream<B>, tick: usize, answers: &mut Answers)
    where
        S: Strategy<B::Id>,
    {
        let now = time(tick);
        self.strategy.advance(now);
        let places = stream.tick(tick);
        let is_fresh = &stream.is_fresh[places.clone()];
        if !self.batched {
            for (id, &is_fresh) in stream.ids.range(places).zip(is_fresh) {
                answers.add(is_fresh, self.strategy.check(id, now));
            }
            return;
        }
        let mut fresh = Vec::with_capacity(BATCH);
        for (start, is_fresh) in places.step_by(BATCH).zip(is_fresh.chunks(BATCH)) {
            let ids = stream.ids.range(start..start + is_fresh.len());
            self.strategy.check_batch(ids, now, &mut fresh);
            assert_eq!(fresh.len(), is_fresh.len(), "one answer for each id");
            is_fresh.iter().zip(&fresh).for_each(|(&is_fresh, &answer)| answers.add(is_fresh, answer));
        }
    }
}

/// Asks for the ids of the last 99 % of a window: none may be fresh.
fn ask_for_known<B: Ids, S: Strategy<B::Id>>(
    strategy: &S,
    streams: &[Stream<B>],
    ticks: &[usize],
    measurement: &mut Measurement,
) {
    let missed = S::allowance().missed;
    if missed == 1.0 {
        return;
    }
    // Of those that lose none a sample will do.
    let step = if missed > 0.0 { 1 } else { 16 };
    let end = *ticks.iter().max().expect("there is a thread");
    for (stream, &own_end) in streams.iter().zip(ticks) {
        let known: Range<usize> = (end - (WINDOW_TICKS - 1)).min(own_end)..own_end;
        for id in stream.fresh_ids(known).step_by(step) {
            measurement.asked += 1;
            measurement.wrong += u64::from(strategy.check(id, time(end - 1)));
        }
    }
}

/// Asks a filter that is as full as it may be for new ids: those that it knows are its false positives.
fn ask_for_unknown<B: Ids, S: Strategy<B::Id>>(strategy: &S, streams: &[Stream<B>], measurement: &mut Measurement) {
    for id in streams.iter().flat_map(|stream| stream.fresh_ids(FILL.ticks_max..FILL.ticks_max + 1)) {
        measurement.asked += 1;
        measurement.wrong += u64::from(!strategy.check(id, time(FILL.ticks_max)));
    }
}
