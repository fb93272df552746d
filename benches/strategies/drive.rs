//! Runs one strategy over the stream, in a process of its own.

use crate::answers::{Counts, WrongAnswers};
use crate::case::{Case, Kind, Measurement, Mode};
use crate::pace::Pace;
use crate::resident;
use crate::stream::{Ids, Part, Stream, Uuids, WINDOW, WINDOW_TICKS, time};
use hapax::strategy::{Plan, Strategy, Visitor, visit};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// Ids in a batch.
const BATCH: usize = 1024;

/// A stretch of the stream: so many windows, or fewer if they take too long. Always whole ones, as maps are purged once in each.
#[derive(Clone, Copy)]
struct Phase {
    windows_min: usize,
    windows_max: usize,
    time_max: Duration,
}

/// Four windows, since a table is not in its steady state before all of its slots have been used; two, at which expiry is under way, for
/// those that take very long.
const WARM_UP: Phase = Phase { windows_min: 2, windows_max: 4, time_max: Duration::from_secs(10) };

/// Two windows; one for those that take very long.
const MEASURED: Phase = Phase { windows_min: 1, windows_max: 2, time_max: Duration::from_secs(5) };

/// What does not forget is filled once.
const FILL: Phase = Phase { windows_min: 1, windows_max: 1, time_max: Duration::MAX };
const NOTHING: Phase = Phase { windows_min: 0, windows_max: 0, time_max: Duration::ZERO };

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
        let windows = warm_up.windows_max + measured.windows_max;
        let streams = generate::<B>(self.0, windows * WINDOW_TICKS + after);
        let bytes_before = resident::bytes();
        let plan = Plan {
            window: WINDOW,
            live: setting.live,
            threads: setting.threads,
            budget_bytes: None,
            place: hapax::strategy::Place::Memory,
        };
        let strategy = S::new(&plan).expect("there is memory for it");
        let stops = (0..=windows).map(|_| OnceLock::new()).collect();
        let batched = self.0.mode == Mode::Batched;
        let course = Course { strategy: &strategy, batched, warm_up, measured, stops };
        let mut measurement = Measurement::default();
        let ends = course.run(&streams, &mut measurement);
        measurement.bytes = resident::bytes().saturating_sub(bytes_before);
        measurement.held = strategy.held().unwrap_or(setting.live as u64);
        match S::EXPIRES {
            true => ask_for_known(&strategy, &streams, &ends, &mut measurement),
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
    /// Whether a phase ends early, after so many windows of the stream: for the first thread there to decide.
    stops: Vec<OnceLock<bool>>,
}

/// What one thread has seen in a phase.
struct Leg {
    wrong: WrongAnswers,
    begun: Instant,
    ended: Instant,
    /// The tick after its last.
    tick: usize,
}

/// What one thread has seen in all.
struct Ride<'a, B: Ids> {
    measured: Leg,
    counts: Counts,
    evicted: u64,
    refused: HashSet<&'a B::Id>,
}

/// Where one thread's ride has ended.
struct End<'a, B: Ids> {
    /// The tick after its last.
    tick: usize,
    /// Ids that were never accepted.
    refused: HashSet<&'a B::Id>,
}

impl<S> Course<'_, S> {
    /// Runs all threads.
    fn run<'a, B: Ids>(&self, streams: &'a [Stream<B>], measurement: &mut Measurement) -> Vec<End<'a, B>>
    where
        S: Strategy<B::Id>,
    {
        let (pace, barrier) = (&Pace::new(streams.len()), &Barrier::new(streams.len()));
        let rides: Vec<Ride<'a, B>> = std::thread::scope(|scope| {
            let run = |(thread, stream)| scope.spawn(move || self.run_thread(stream, thread, pace, barrier));
            let threads: Vec<_> = streams.iter().enumerate().map(run).collect();
            threads.into_iter().map(|thread| thread.join().expect("a strategy does not panic")).collect()
        });
        for Ride { counts, evicted, .. } in &rides {
            measurement.fresh += counts.fresh;
            measurement.invented += counts.invented;
            measurement.duplicates += counts.duplicates;
            measurement.missed += counts.missed;
            measurement.evicted += evicted;
        }
        let begun = rides.iter().map(|ride| ride.measured.begun).min().expect("there is a thread");
        let ended = rides.iter().map(|ride| ride.measured.ended).max().expect("there is a thread");
        measurement.nanos = (ended - begun).as_nanos() as u64;
        rides.into_iter().map(|ride| End { tick: ride.measured.tick, refused: ride.refused }).collect()
    }

    fn run_thread<'a, B: Ids>(
        &self,
        stream: &'a Stream<B>,
        thread: usize,
        pace: &Pace,
        barrier: &Barrier,
    ) -> Ride<'a, B>
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
        let measured = run(warm_up.tick, self.measured);
        let evicted = evicted() - before;
        let mut refused = warm_up.wrong.refused(stream);
        refused.extend(measured.wrong.refused(stream));
        let places = stream.ticks(warm_up.tick..measured.tick);
        Ride { counts: Counts::of(stream, places, &measured.wrong, &refused), measured, evicted, refused }
    }

    fn run_phase<B: Ids>(&self, stream: &Stream<B>, from: usize, phase: Phase, keep_pace: impl Fn(usize)) -> Leg
    where
        S: Strategy<B::Id>,
    {
        let mut wrong = WrongAnswers::default();
        let mut fresh = Vec::with_capacity(BATCH);
        let begun = Instant::now();
        let mut tick = from;
        while tick < from + phase.windows_max * WINDOW_TICKS {
            self.run_tick(stream, tick, &mut wrong, &mut fresh);
            tick += 1;
            let (windows, is_whole) = ((tick - from) / WINDOW_TICKS, tick.is_multiple_of(WINDOW_TICKS));
            if is_whole && windows >= phase.windows_min {
                let stop = &self.stops[tick / WINDOW_TICKS];
                if *stop.get_or_init(|| begun.elapsed() > phase.time_max) {
                    break;
                }
            }
            keep_pace(tick);
        }
        Leg { wrong, begun, ended: Instant::now(), tick }
    }

    #[inline(never)]
    fn run_tick<B: Ids>(&self, stream: &Stream<B>, tick: usize, wrong: &mut WrongAnswers, fresh: &mut Vec<bool>)
    where
        S: Strategy<B::Id>,
    {
        let now = time(tick);
        self.strategy.advance(now);
        let places = stream.tick(tick);
        let is_fresh = &stream.is_fresh[places.clone()];
        if !self.batched {
            for ((place, id), &is_fresh) in places.clone().zip(stream.ids.range(places)).zip(is_fresh) {
                wrong.compare(place, is_fresh, self.strategy.check(id, now));
            }
            return;
        }
        for (start, is_fresh) in places.step_by(BATCH).zip(is_fresh.chunks(BATCH)) {
            let ids = stream.ids.range(start..start + is_fresh.len());
            self.strategy.check_batch(ids, now, fresh);
            assert_eq!(fresh.len(), is_fresh.len(), "one answer for each id");
            for ((place, &is_fresh), &answer) in (start..).zip(is_fresh).zip(&*fresh) {
                wrong.compare(place, is_fresh, answer);
            }
        }
    }
}

/// Asks for the ids of the last 99 % of a window: none that was accepted may be fresh.
fn ask_for_known<B: Ids, S: Strategy<B::Id>>(
    strategy: &S,
    streams: &[Stream<B>],
    ends: &[End<'_, B>],
    measurement: &mut Measurement,
) {
    let missed = S::allowance().missed;
    if missed == 1.0 {
        return;
    }
    // Of those that lose none a sample will do.
    let step = if missed > 0.0 { 1 } else { 16 };
    let last = ends.iter().map(|end| end.tick).max().expect("there is a thread");
    for (stream, end) in streams.iter().zip(ends) {
        let known: Range<usize> = (last - (WINDOW_TICKS - 1)).min(end.tick)..end.tick;
        for id in stream.fresh_ids(known).filter(|&id| !end.refused.contains(id)).step_by(step) {
            measurement.asked += 1;
            measurement.wrong += u64::from(strategy.check(id, time(last - 1)));
        }
    }
}

/// Asks a filter that is as full as it may be for new ids: those that it knows are its false positives.
fn ask_for_unknown<B: Ids, S: Strategy<B::Id>>(strategy: &S, streams: &[Stream<B>], measurement: &mut Measurement) {
    for id in streams.iter().flat_map(|stream| stream.fresh_ids(WINDOW_TICKS..WINDOW_TICKS + 1)) {
        measurement.asked += 1;
        measurement.wrong += u64::from(!strategy.check(id, time(WINDOW_TICKS)));
    }
}
