//! Ids that come at a rate, even if the strategy is not ready for them.
//!
//! A fixed rate shows the waiting times of a caller that cannot slow down its input: if a strategy
//! is held up for 10 ms, all ids that were due in that time are late, and each counts (Tene, "How
//! NOT to Measure Latency", 2013: coordinated omission).

use super::answers::Unexpected;
use super::course::{Course, Crew, Leg};
use super::schedule::{Delays, Schedule};
use super::watch::Watch;
use super::workload::{Ids, Stream, time};
use crate::strategy::Strategy;
use std::time::{Duration, Instant};

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

impl<B: Ids, S: Strategy<B::Id>> Course<'_, B, S> {
    /// Checks ids when they are due: as many as are, up to a batch. Ends in bounded time; ids that
    /// were due and not answered then count with the time that they have waited so far.
    pub(super) fn run_paced(&self, crew: &Crew, thread: usize, stream: &Stream<B>, from: usize, rate: f64) -> Leg {
        let all = stream.ticks(from..from + self.phases.measured.ticks_max);
        let schedule = crew.schedule(|| Schedule::new(Instant::now(), rate, self.streams.len()));
        let ids = all.len().min(schedule.due_by(thread, schedule.start + self.phases.due_max));
        let planned = schedule.due(thread, ids) - schedule.start;
        let deadline = schedule.start + planned * 2 + GRACE;
        let mut unexpected = Unexpected::default();
        let mut fresh = Vec::with_capacity(self.setting.batch);
        let mut delays = Delays::new();
        let think = Duration::from_nanos(self.setting.think_nanos);
        let begun = Instant::now();
        let mut watch = Watch::start();
        let (mut tick, mut done) = (from, 0);
        self.strategy.advance(time(tick));
        watch.lap();
        while done < ids {
            let place = all.start + done;
            while stream.tick(tick).end <= place {
                tick += 1;
                crew.pace.keep(thread, tick);
                watch.skip_to(Instant::now());
                self.strategy.advance(time(tick));
                watch.lap();
            }
            let now = wait_until(schedule.due(thread, done));
            if now > deadline {
                break;
            }
            let due = schedule.due_by(thread, now).clamp(done + 1, ids);
            let end = (all.start + due).min(place + self.setting.batch).min(stream.tick(tick).end);
            watch.skip_to(now);
            match self.setting.batch {
                1 => unexpected.compare(place, stream.truth[place], self.strategy.check(stream.id(place), time(tick))),
                _ => self.check_batch(stream, place..end, tick, &mut unexpected, &mut fresh),
            }
            let answered = watch.lap();
            for id in done..end - all.start {
                delays.record(answered - schedule.due(thread, id));
            }
            done = end - all.start;
            if !think.is_zero() {
                watch.think(think);
            }
        }
        let ended = Instant::now();
        for id in done..ids.min(schedule.due_by(thread, ended)) {
            delays.record(ended - schedule.due(thread, id));
        }
        (delays.answered, delays.elapsed) = (done as u64, ended - schedule.start);
        Leg {
            unexpected,
            places: all.start..all.start + done,
            tick: tick + 1,
            begun,
            ended,
            thought: Duration::ZERO,
            pause_nanos: watch.longest_nanos(),
            delays: Some(delays),
        }
    }
}
