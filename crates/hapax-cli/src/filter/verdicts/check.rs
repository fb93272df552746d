//! Second stage: verdicts for the ids of a batch.

use super::refusing::{Refused, RefusingArgs};
use crate::error::CommandError;
use crate::filter::source::parse::Batch;
use crate::printable::tell;
use hapax::{Dedup, Prepared, Refusal, Timestamp, Verdict};
use hapax_plan::Time as Shown;
use std::time::Duration;

/// The source of an event's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Time {
    /// There is no window: time stands still.
    Still,
    /// The time at which the line arrives.
    Arrival,
    /// The time that the line contains.
    Event,
}

/// Checks ids in the order of their lines.
pub struct Checker {
    dedup: Dedup,
    time: Time,
    refusing: RefusingArgs,
    tick_nanos: u64,
    /// The latest time so far.
    stream_time: Timestamp,
    /// The input of the last event.
    input: Option<String>,
    /// True if an input that begins before others have ended is still to be said.
    pub says_overlaps: bool,
    verdicts: Vec<Verdict>,
}

impl Checker {
    /// Creates a checker. `latest` is the latest time that earlier runs have seen.
    pub fn new(dedup: Dedup, time: Time, refusing: RefusingArgs, latest: Timestamp) -> Self {
        let tick_nanos = dedup.tick().as_nanos() as u64;
        let (input, says_overlaps, verdicts) = (None, true, Vec::new());
        Checker { dedup, time, refusing, tick_nanos, stream_time: latest, input, says_overlaps, verdicts }
    }

    /// Fills in the verdicts of a batch. If an event is refused and that is an error, the batch
    /// ends before it.
    pub fn check(&mut self, batch: &mut Batch) -> Result<(), CommandError> {
        let ids = batch.ids.iter().copied();
        batch.runs.clear();
        match self.time {
            Time::Still => self.dedup.check_batch_at(ids, Timestamp::default(), &mut batch.verdicts),
            Time::Arrival => self.dedup.check_batch(ids, &mut batch.verdicts),
            Time::Event => {
                batch.verdicts.clear();
                self.compare_inputs(batch);
                self.check_events(batch);
                if self.refusing.refused == Refused::Error {
                    return refuse(batch);
                }
            }
        }
        Ok(())
    }

    /// Says, once, that an input begins earlier than one before it has ended.
    fn compare_inputs(&mut self, batch: &Batch) {
        let Some(first) = batch.times.first().filter(|_| self.says_overlaps) else { return };
        let input = Some(&batch.place.input);
        if self.input.as_ref() == input {
            return;
        }
        let is_first = std::mem::replace(&mut self.input, input.cloned()).is_none();
        let overlap = self.stream_time.since(*first);
        if !is_first && overlap > self.refusing.allowed_lateness.unwrap_or_default() {
            self.says_overlaps = false;
            tell(format_args!(
                "hapax: warning: {} begins {} earlier than an input before it has ended: its events count as of that time, and duplicates \
                 may pass; --merge reads inputs in order of time",
                batch.name,
                Shown(overlap)
            ));
        }
    }

    /// Checks runs of events, each run at one time: the engine cannot tell the times of its events
    /// apart. A refused event moves no time: if a run is refused, its first event is checked alone,
    /// and the rest is checked without it.
    fn check_events(&mut self, Batch { ids, times, verdicts, runs, late, .. }: &mut Batch) {
        let mut start = 0;
        while start < ids.len() {
            let mut at = self.at(times[start]);
            let grain = self.grain(at);
            let is_late = u64::from(times[start] < self.stream_time);
            let (mut end, mut late_ones) = (start + 1, is_late);
            while end < ids.len() && self.grain(at.max(times[end])) == grain && !self.stands_alone(at, times[end]) {
                late_ones += u64::from(times[end] < at);
                at = at.max(times[end]);
                end += 1;
            }
            let mut refused = self.check_run(&ids[start..end], at);
            if refused && end > start + 1 {
                (end, late_ones) = (start + 1, is_late);
                at = self.at(times[start]);
                refused = self.check_run(&ids[start..end], at);
            }
            if !refused {
                self.stream_time = self.stream_time.max(at);
                *late += late_ones;
            }
            verdicts.append(&mut self.verdicts);
            runs.push((end, self.stream_time));
            start = end;
        }
    }

    /// Checks ids at one time. Returns true if they were refused.
    fn check_run(&mut self, ids: &[Prepared], at: Timestamp) -> bool {
        self.dedup.check_batch_at(ids.iter().copied(), at, &mut self.verdicts);
        self.verdicts.first().is_some_and(|verdict| verdict.refusal().is_some())
    }

    /// Returns the time at which to check an event of `time`: a late one counts as of stream time,
    /// unless it may be too late.
    fn at(&self, time: Timestamp) -> Timestamp {
        if self.stands_alone(self.stream_time, time) { time } else { time.max(self.stream_time) }
    }

    fn stands_alone(&self, latest: Timestamp, time: Timestamp) -> bool {
        self.refusing.stands_alone(latest.as_nanos(), time.as_nanos())
    }

    /// Rounds a time down and up to ticks; two times with the same result are the same to the
    /// engine.
    fn grain(&self, time: Timestamp) -> (u64, bool) {
        let nanos = time.as_nanos();
        (nanos / self.tick_nanos, nanos.is_multiple_of(self.tick_nanos))
    }
}

/// Ends a batch before the first event that was refused.
fn refuse(batch: &mut Batch) -> Result<(), CommandError> {
    let refusals = batch.verdicts.iter().map(|verdict| verdict.refusal());
    let Some((id, refusal)) = refusals.enumerate().find_map(|(id, refusal)| refusal.map(|refusal| (id, refusal)))
    else {
        return Ok(());
    };
    let line = batch.cut_before(id);
    let what = match refusal {
        Refusal::Late => "too late (see --allowed-lateness",
        _ => "too far ahead (see --max-skew and --max-jump",
    };
    let Batch { name, record, .. } = batch;
    Err(CommandError::BadInput(format!("{name}, {record} {line}: its time is {what}, and --refused)")))
}

/// Returns the kind of time in the engine that a window of this length, or none, makes.
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

    const WINDOW: Duration = Duration::from_secs(10);

    fn rules(max_jump: Option<Duration>, allowed_lateness: Option<Duration>) -> RefusingArgs {
        RefusingArgs { max_skew: None, allowed_lateness, time_unrelated: true, max_jump, refused: Refused::Pass }
    }

    /// Returns the verdicts of events, each an id and milliseconds, one by one and in batches.
    fn both_ways(events: &[(usize, u64)], rules: RefusingArgs) -> [Vec<Verdict>; 2] {
        let engine = || {
            let builder = Dedup::builder().window(WINDOW).capacity(1_000).seed(1);
            builder.event_time(rules.event_time(true)).build().unwrap()
        };
        let (single, batched) = (engine(), engine());
        let one_by_one = events.iter().map(|(id, ms)| single.check_at(id.to_le_bytes(), Timestamp::from_millis(*ms)));
        let one_by_one = one_by_one.collect();
        let mut checker = Checker::new(batched.clone(), Time::Event, rules, Timestamp::default());
        let mut verdicts = Vec::new();
        for part in events.chunks(20) {
            let ids = part.iter().map(|(id, _)| batched.prepare(id.to_le_bytes())).collect();
            let times = part.iter().map(|(_, ms)| Timestamp::from_millis(*ms)).collect();
            let mut batch = Batch { ids, times, ..Batch::default() };
            checker.check(&mut batch).unwrap();
            verdicts.append(&mut batch.verdicts);
        }
        [one_by_one, verdicts]
    }

    /// A tick is 100 ms: times that share one, lie on the edge of one, go back, and jump.
    const MILLIS: [u64; 20] = [
        0, 1, 99, 100, 100, 101, 50, 199, 200, 200, 150, 201, 9_999, 10_000, 10_050, 10_099, 10_100, 10_101, 3, 20_200,
    ];

    #[test]
    fn runs_of_events_get_the_answers_of_single_events() {
        for step in 1..5 {
            let times = MILLIS.iter().enumerate();
            let events: Vec<_> = times.map(|(i, ms)| (i / step % 3, *ms + 40_000 * step as u64)).collect();
            let [one_by_one, batched] = both_ways(&events, rules(None, None));
            assert_eq!(batched, one_by_one);
        }
    }

    #[test]
    fn what_is_refused_moves_no_time_and_takes_nothing_along() {
        let seconds = Duration::from_secs;
        let mut events = Vec::new();
        for (round, far) in [(0, 0), (1, 1_000_000), (2, 0), (3, 2_000_000)] {
            events.extend(MILLIS.iter().enumerate().map(|(i, ms)| (i % 4, 40_000 * (round + 1) + ms)));
            // There is one event that is far ahead, and enough that agree with it.
            let agreeing = if round == 3 { 20 } else { 1 };
            events.extend((0..agreeing).map(|i| (100 + i, far + 1_000_000 + i as u64)));
            events.push((7, 40_000 * (round + 1) + 20_200));
        }
        let cases = [(Some(seconds(50)), None), (None, Some(seconds(5))), (Some(seconds(50)), Some(seconds(1)))];
        for (max_jump, allowed_lateness) in cases {
            let [one_by_one, batched] = both_ways(&events, rules(max_jump, allowed_lateness));
            assert_eq!(batched, one_by_one, "{max_jump:?} {allowed_lateness:?}");
            let refused = |refusal| batched.iter().filter(|verdict| verdict.refusal() == Some(refusal)).count();
            assert_eq!(
                (refused(Refusal::Ahead) > 0, refused(Refusal::Late) > 0),
                (max_jump.is_some(), allowed_lateness.is_some())
            );
        }
    }
}
