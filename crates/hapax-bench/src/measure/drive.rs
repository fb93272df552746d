//! Runs a strategy over the stream.

use super::answers::Unexpected;
use super::course::{Course, Crew, Leg};
use super::gate::Broken;
use super::phases::Phase;
use super::watch::Watch;
use super::workload::{Ids, Stream, time};
use crate::strategy::Strategy;
use std::time::{Duration, Instant};

/// Single checks between two readings of the clock, which takes longer than a check.
const SINGLES_TIMED: usize = 64;

/// The results of one thread in all phases.
pub(super) struct Ride {
    pub measured: Leg,
    /// The unexpected answers from the beginning of the stream on.
    pub unexpected: Unexpected,
}

/// Releases the other threads if this thread panics: one of those that check ids, or the one that
/// reads gauges.
struct Relief<'a>(&'a Crew, Option<usize>);

impl Drop for Relief<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.1.inspect(|&thread| self.0.pace.leave(thread));
            self.0.gate.break_down();
        }
    }
}

impl<B: Ids, S: Strategy<B::Id>> Course<'_, B, S> {
    /// Runs all threads, and reads gauges before and after what is measured. Panics if the strategy
    /// does.
    pub fn run<G>(&self, gauges: impl Fn() -> G) -> (Vec<Ride>, G, G) {
        let crew = &Crew::new(self.streams.len(), self.phases.ticks());
        std::thread::scope(|scope| {
            let run = |(thread, stream)| {
                scope.spawn(move || {
                    let _relief = Relief(crew, Some(thread));
                    self.run_thread(crew, thread, stream)
                })
            };
            let threads: Vec<_> = self.streams.iter().enumerate().map(run).collect();
            let _relief = Relief(crew, None);
            let read = || -> Result<G, Broken> {
                crew.gate.wait()?;
                crew.gate.wait()?;
                // The system updates a running thread's processor time late, by a timer's
                // interrupt. After this pause the threads wait at the gate.
                std::thread::sleep(Duration::from_millis(1));
                let before = gauges();
                crew.gate.wait()?;
                crew.gate.wait()?;
                Ok(before)
            };
            let before = read();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            // All threads are joined, so that the panic is found that broke the gate.
            let rides: Vec<Result<Ride, Broken>> = threads.into_iter().map(join).collect();
            let after = gauges(); // when they have ended, for the same reason
            let rides: Result<Vec<Ride>, Broken> = rides.into_iter().collect();
            let before = before.expect("no thread has panicked");
            (rides.expect("no thread has panicked"), before, after)
        })
    }

    fn run_thread(&self, crew: &Crew, thread: usize, stream: &Stream<B>) -> Result<Ride, Broken> {
        let run = |from, phase: Option<Phase>| {
            crew.pace.enter(thread, from);
            crew.gate.wait()?;
            let leg = match (phase, self.setting.rate) {
                (None, Some(rate)) => self.run_paced(crew, thread, stream, from, rate),
                (phase, _) => self.run_phase(crew, thread, stream, from, phase.unwrap_or(self.phases.measured)),
            };
            crew.pace.leave(thread);
            crew.gate.wait()?;
            Ok(leg)
        };
        let warm_up = run(0, Some(self.phases.warm_up))?;
        let mut measured = run(warm_up.tick, None)?;
        let unexpected = warm_up.unexpected.then(std::mem::take(&mut measured.unexpected));
        Ok(Ride { measured, unexpected })
    }

    /// Runs a phase as fast as the strategy can.
    fn run_phase(&self, crew: &Crew, thread: usize, stream: &Stream<B>, from: usize, phase: Phase) -> Leg {
        let mut unexpected = Unexpected::default();
        let mut fresh = Vec::with_capacity(self.setting.batch);
        let begun = Instant::now();
        let mut watch = Watch::start();
        let mut tick = from;
        while tick < from + phase.ticks_max {
            self.run_tick(stream, tick, &mut watch, &mut unexpected, &mut fresh);
            tick += 1;
            let ticks = tick - from;
            if ticks >= phase.ticks_min && ticks.is_multiple_of(phase.step) {
                let stop = &crew.stops[tick];
                if *stop.get_or_init(|| begun.elapsed() > phase.time_max) {
                    break;
                }
            }
            if crew.pace.keep(thread, tick) {
                watch.skip_to(Instant::now());
            }
        }
        Leg {
            unexpected,
            places: stream.ticks(from..tick),
            tick,
            begun,
            ended: Instant::now(),
            thought: watch.thought(),
            pause_nanos: watch.longest_nanos(),
            delays: None,
        }
    }

    #[inline(never)]
    fn run_tick(
        &self,
        stream: &Stream<B>,
        tick: usize,
        watch: &mut Watch,
        unexpected: &mut Unexpected,
        fresh: &mut Vec<bool>,
    ) {
        let (now, batch) = (time(tick), self.setting.batch);
        let think = Duration::from_nanos(self.setting.think_nanos);
        self.strategy.advance(now);
        watch.lap();
        let places = stream.tick(tick);
        let truth = &stream.truth[places.clone()];
        if batch == 1 {
            for (start, truth) in places.step_by(SINGLES_TIMED).zip(truth.chunks(SINGLES_TIMED)) {
                let ids = stream.ids.range(start..start + truth.len());
                for ((place, id), &truth) in (start..).zip(ids).zip(truth) {
                    unexpected.compare(place, truth, self.strategy.check(id, now));
                    if !think.is_zero() {
                        watch.think(think);
                    }
                }
                watch.lap();
            }
            return;
        }
        let mut untimed = 0;
        for (start, truth) in places.step_by(batch).zip(truth.chunks(batch)) {
            self.check_batch(stream, start..start + truth.len(), tick, unexpected, fresh);
            if !think.is_zero() {
                watch.think(think);
            }
            untimed += truth.len();
            if untimed >= SINGLES_TIMED {
                watch.lap();
                untimed = 0;
            }
        }
        watch.lap();
    }
}
