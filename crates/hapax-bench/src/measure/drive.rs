//! Runs a strategy over the stream.

use super::Setting;
use super::answers::Unexpected;
use super::pace::Pace;
use super::phases::{Phase, Phases};
use super::schedule::{Delays, Schedule};
use super::work::Work;
use super::workload::{Ids, Stream, time};
use crate::strategy::Strategy;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Barrier, OnceLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The run of a strategy over the stream, and the state that keeps its threads together.
pub(super) struct Course<'a, B, S> {
    strategy: &'a S,
    streams: &'a [Stream<B>],
    setting: &'a Setting,
    phases: Phases,
    pace: Pace,
    /// The real time of a tick, if the strategy has a clock of its own.
    tick_time: Option<Duration>,
    /// The place where threads wait before they are measured, with the one that reads gauges.
    barrier: Barrier,
    /// Decisions to end a phase early after this many ticks of the stream; the first thread there
    /// decides.
    stops: Vec<OnceLock<bool>>,
    /// The time at which the first id is due at a rate: when the first thread asks.
    start: OnceLock<Instant>,
}

/// The results of one thread in a phase; at the end in the measured one, except for the unexpected
/// answers, which are those from the beginning of the stream on.
pub(super) struct Leg {
    pub unexpected: Unexpected,
    pub places: Range<usize>,
    /// The tick after its last.
    pub tick: usize,
    pub begun: Instant,
    pub ended: Instant,
    /// The time without what passed between ticks, if those came by a clock, and without work.
    pub busy: Option<Duration>,
    /// The time of the work between checks.
    pub work: Duration,
    pub delays: Option<Delays>,
}

impl<'a, B: Ids, S: Strategy<B::Id>> Course<'a, B, S> {
    pub fn new(
        strategy: &'a S,
        streams: &'a [Stream<B>],
        setting: &'a Setting,
        phases: Phases,
        tick_time: Option<Duration>,
    ) -> Self {
        Course {
            strategy,
            streams,
            setting,
            phases,
            tick_time,
            pace: Pace::new(streams.len()),
            barrier: Barrier::new(streams.len() + 1),
            stops: (0..=phases.ticks()).map(|_| OnceLock::new()).collect(),
            start: OnceLock::new(),
        }
    }

    /// Runs all threads, and reads gauges before and after what is measured. Panics if the strategy
    /// does.
    pub fn run<G>(&self, gauges: impl Fn() -> G) -> (Vec<Leg>, G, G) {
        std::thread::scope(|scope| {
            let run = |(thread, stream)| scope.spawn(move || self.run_thread(thread, stream));
            let threads: Vec<_> = self.streams.iter().enumerate().map(run).collect();
            self.barrier.wait();
            // The system updates a running thread's processor time late, by a timer's interrupt.
            // After this pause the threads wait.
            std::thread::sleep(Duration::from_millis(1));
            let before = gauges();
            self.barrier.wait();
            let legs: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
            let after = gauges(); // when they have ended, for the same reason
            (legs.into_iter().map(|leg| leg.unwrap_or_else(|panic| resume_unwind(panic))).collect(), before, after)
        })
    }

    /// Runs one thread. If the strategy panics, the others do not wait for it.
    fn run_thread(&self, thread: usize, stream: &Stream<B>) -> Leg {
        let guarded =
            |phase: &dyn Fn() -> Leg| catch_unwind(AssertUnwindSafe(phase)).inspect_err(|_| self.pace.leave(thread));
        let warm_up = guarded(&|| self.run_phase(thread, stream, 0, self.phases.warm_up));
        self.barrier.wait();
        self.barrier.wait();
        let warm_up = warm_up.unwrap_or_else(|panic| resume_unwind(panic));
        let measured = guarded(&|| match self.setting.rate {
            Some(rate) => self.run_paced(thread, stream, warm_up.tick, rate),
            None => self.run_phase(thread, stream, warm_up.tick, self.phases.measured),
        });
        let mut measured = measured.unwrap_or_else(|panic| resume_unwind(panic));
        self.pace.leave(thread);
        measured.unexpected = warm_up.unexpected.then(measured.unexpected);
        measured
    }

    /// Runs a phase as fast as the strategy can; if it has a clock of its own, each tick when it is
    /// due by that. If there is work, it is done once more after each tick, without checks.
    fn run_phase(&self, thread: usize, stream: &Stream<B>, from: usize, phase: Phase) -> Leg {
        let (mut unexpected, mut fresh) = (Unexpected::default(), Vec::with_capacity(self.setting.batch));
        let mut work = (self.setting.work > 0).then(|| Work::new(self.setting.work));
        let (begun, mut busy, mut alone) = (Instant::now(), Duration::ZERO, Duration::ZERO);
        let mut due = begun;
        let mut tick = from;
        while tick < from + phase.ticks_max {
            if let Some(tick_time) = self.tick_time {
                // Not asleep: what it needs would have left the caches.
                wait_until(due);
                // Those after a late one catch up by some ticks only: with more, more than are live
                // would come in a window.
                let behind_max = tick_time * CATCH_UP_TICKS;
                due = due.max(Instant::now() - behind_max) + tick_time;
            }
            let tick_begun = Instant::now();
            match &mut work {
                None => self.run_tick(stream, tick, &mut unexpected, &mut fresh, || ()),
                Some(work) => self.run_tick(stream, tick, &mut unexpected, &mut fresh, || work.decode()),
            }
            busy += tick_begun.elapsed();
            if let Some(work) = &mut work {
                let alone_begun = Instant::now();
                stream.tick(tick).for_each(|_| work.decode());
                alone += alone_begun.elapsed();
            }
            tick += 1;
            let ticks = tick - from;
            let may_end = ticks >= phase.ticks_min && ticks.is_multiple_of(phase.step);
            if may_end && *self.stops[tick].get_or_init(|| begun.elapsed() > phase.time_max) {
                break;
            }
            self.pace.keep(thread, tick);
        }
        let (places, ended) = (stream.ticks(from..tick), Instant::now());
        let busy = (work.is_some() || self.tick_time.is_some()).then(|| busy.saturating_sub(alone));
        Leg { unexpected, places, tick, begun, ended, busy, work: alone, delays: None }
    }

    #[inline(never)]
    fn run_tick(
        &self,
        stream: &Stream<B>,
        tick: usize,
        unexpected: &mut Unexpected,
        fresh: &mut Vec<bool>,
        mut work: impl FnMut(),
    ) {
        let (now, places) = (time(tick), stream.tick(tick));
        self.strategy.advance(now);
        if self.setting.batch == 1 {
            let ids = stream.ids.range(places.clone());
            let mut truths = places.clone().zip(&stream.truth[places]);
            let answered = |answer| {
                let (place, &truth) = truths.next().expect("one answer for each id");
                unexpected.compare(place, truth, answer);
                work();
            };
            if self.setting.ahead {
                self.strategy.check_ahead(ids, now, answered);
            } else {
                ids.map(|id| self.strategy.check(id, now)).for_each(answered);
            }
            return assert!(truths.next().is_none(), "one answer for each id");
        }
        for start in places.clone().step_by(self.setting.batch) {
            let end = (start + self.setting.batch).min(places.end);
            self.check_batch(stream, start..end, tick, unexpected, fresh);
        }
    }

    /// Hands over some ids of a tick at once, and compares the answers.
    #[inline(always)]
    fn check_batch(
        &self,
        stream: &Stream<B>,
        places: Range<usize>,
        tick: usize,
        unexpected: &mut Unexpected,
        fresh: &mut Vec<bool>,
    ) {
        self.strategy.check_batch(stream.ids.range(places.clone()), time(tick), fresh);
        assert_eq!(fresh.len(), places.len(), "one answer for each id");
        for ((place, &truth), &answer) in places.clone().zip(&stream.truth[places]).zip(&*fresh) {
            unexpected.compare(place, truth, answer);
        }
    }

    /// Checks ids when they are due, even if the strategy is not ready for them: as many as are, up
    /// to a batch.
    ///
    /// A fixed rate shows the waiting times of a caller that cannot slow down its input: if a
    /// strategy is held up for 10 ms, all ids that were due in that time are late, and each counts
    /// (Tene, "How NOT to Measure Latency", 2013: coordinated omission). Ends in bounded time; ids
    /// that were due and not answered then count with the time that they have waited so far.
    fn run_paced(&self, thread: usize, stream: &Stream<B>, from: usize, rate: f64) -> Leg {
        let all = stream.ticks(from..from + self.phases.measured.ticks_max);
        let start = *self.start.get_or_init(Instant::now);
        let schedule = Schedule::of(thread, self.streams.len(), rate, start);
        let ids = all.len().min(schedule.due_by(start + self.phases.due_max));
        let deadline = start + (schedule.due(ids) - start) * 2 + GRACE;
        let (mut unexpected, mut fresh) = (Unexpected::default(), Vec::with_capacity(self.setting.batch));
        let (mut delays, begun) = (Delays::new(), Instant::now());
        let (mut tick, mut done) = (from, 0);
        self.strategy.advance(time(tick));
        while done < ids {
            let place = all.start + done;
            while stream.tick(tick).end <= place {
                tick += 1;
                self.pace.keep(thread, tick);
                self.strategy.advance(time(tick));
            }
            let now = wait_until(schedule.due(done));
            if now > deadline {
                break;
            }
            let due = schedule.due_by(now).clamp(done + 1, ids);
            let end = (all.start + due).min(place + self.setting.batch).min(stream.tick(tick).end);
            match self.setting.batch {
                1 => unexpected.compare(place, stream.truth[place], self.strategy.check(stream.id(place), time(tick))),
                _ => self.check_batch(stream, place..end, tick, &mut unexpected, &mut fresh),
            }
            let (answered, until) = (Instant::now(), end - all.start);
            (done..until).for_each(|id| delays.record(answered - schedule.due(id)));
            done = until;
        }
        let ended = Instant::now();
        for id in done..ids.min(schedule.due_by(ended)) {
            delays.record(ended - schedule.due(id));
        }
        (delays.answered, delays.elapsed) = (done as u64, ended - start);
        let places = all.start..all.start + done;
        let work = Duration::ZERO;
        Leg { unexpected, places, tick: tick + 1, begun, ended, busy: None, work, delays: Some(delays) }
    }
}

/// The most ticks that are made good after one that came late by a clock.
const CATCH_UP_TICKS: u32 = 5;

/// The extra time for answers: as long again as the ids are due, plus this.
const GRACE: Duration = Duration::from_millis(500);

/// Waits until the time, without giving up the processor for the last part, since the system would
/// not return it on time.
fn wait_until(due: Instant) -> Instant {
    loop {
        let now = Instant::now();
        match due.saturating_duration_since(now) {
            Duration::ZERO => return now,
            left if left > Duration::from_micros(50) => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}
