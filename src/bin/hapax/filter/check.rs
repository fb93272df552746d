//! Second stage: verdicts for the ids of a batch.

use super::parse::Batch;
use hapax::{Dedup, Timestamp, Verdict};
use std::time::Duration;

/// Where the time of an event comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Time {
    /// There is no window: time stands still.
    Still,
    /// When the line arrives.
    Arrival,
    /// The line says it.
    Event,
}

/// Checks ids in the order of their lines.
pub struct Checker {
    dedup: Dedup,
    time: Time,
    tick_nanos: u64,
    /// The latest time so far.
    stream_time: Timestamp,
    verdicts: Vec<Verdict>,
}

impl Checker {
    /// `latest` is the latest time that earlier runs have seen.
    pub fn new(dedup: Dedup, time: Time, latest: Timestamp) -> Self {
        let tick_nanos = dedup.tick().as_nanos() as u64;
        Checker { dedup, time, tick_nanos, stream_time: latest, verdicts: Vec::new() }
    }

    /// Fills in the verdicts of a batch.
    pub fn check(&mut self, batch: &mut Batch) {
        let ids = batch.ids.iter().copied();
        batch.runs.clear();
        match self.time {
            Time::Still => self.dedup.check_batch_prepared_at(ids, Timestamp::default(), &mut batch.verdicts),
            Time::Arrival => self.dedup.check_batch_prepared(ids, &mut batch.verdicts),
            Time::Event => {
                batch.verdicts.clear();
                self.check_events(batch);
            }
        }
    }

    /// Checks runs of events whose times the engine cannot tell apart at one of these times.
    fn check_events(&mut self, Batch { ids, times, verdicts, runs, .. }: &mut Batch) {
        let mut start = 0;
        while start < ids.len() {
            self.stream_time = self.stream_time.max(times[start]);
            let grain = self.grain(self.stream_time);
            let mut end = start + 1;
            while end < ids.len() && self.grain(self.stream_time.max(times[end])) == grain {
                self.stream_time = self.stream_time.max(times[end]);
                end += 1;
            }
            let run = ids[start..end].iter().copied();
            self.dedup.check_batch_prepared_at(run, self.stream_time, &mut self.verdicts);
            verdicts.append(&mut self.verdicts);
            runs.push((end, self.stream_time));
            start = end;
        }
    }

    /// Times are rounded down and up to ticks; two with the same result are the same.
    fn grain(&self, time: Timestamp) -> (u64, bool) {
        let nanos = time.as_nanos();
        (nanos / self.tick_nanos, nanos.is_multiple_of(self.tick_nanos))
    }
}

/// What time it is in the engine that a window of this length, or none, makes.
pub fn time_of(window: Option<Duration>, has_event_time: bool) -> Time {
    match (window, has_event_time) {
        (None, _) => Time::Still,
        (Some(_), false) => Time::Arrival,
        (Some(_), true) => Time::Event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_events_get_the_answers_of_single_events() {
        let engine = || Dedup::builder().window(Duration::from_secs(10)).capacity(1_000).seed(1).build().unwrap();
        let (single, batched) = (engine(), engine());
        // A tick is 100 ms: times that share one, lie on the edge of one, go back, and jump.
        let millis = [
            0, 1, 99, 100, 100, 101, 50, 199, 200, 200, 150, 201, 9_999, 10_000, 10_050, 10_099, 10_100, 10_101, 3,
            20_200,
        ];
        for step in 1..5 {
            let events: Vec<_> =
                millis.iter().enumerate().map(|(i, ms)| (i / step % 3, *ms + 40_000 * step as u64)).collect();
            let ids = events.iter().map(|(id, _)| batched.digest(id.to_le_bytes())).collect();
            let times = events.iter().map(|(_, ms)| Timestamp::from_millis(*ms)).collect();
            let mut batch = Batch { ids, times, ..Batch::default() };
            let mut checker = Checker::new(batched.clone(), Time::Event, Timestamp::default());
            checker.check(&mut batch);
            let one_by_one: Vec<_> =
                events.iter().map(|(id, ms)| single.check_at(id.to_le_bytes(), Timestamp::from_millis(*ms))).collect();
            assert_eq!(batch.verdicts, one_by_one);
        }
    }
}
