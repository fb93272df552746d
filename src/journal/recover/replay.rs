//! The part of a journal that an engine must be told: the events after everything was forgotten for
//! the last time that have not expired by the time with which the journal ends. Pure.
//!
//! So opening costs no more than the files' length justifies, whoever wrote them: runs of a few
//! bytes that clear the memory, or let time go on, cost nothing by themselves.

use crate::Timestamp;
use crate::journal::encoding::payload::{Kind, Run};
use std::time::Duration;

/// The useful part of all runs, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::journal) struct Useful {
    runs: u64,
    /// The number of the last run that forgets everything, plus 1; 0 if there is none.
    cleared: u64,
    /// The latest time of any run.
    latest: Timestamp,
}

impl Useful {
    /// Notes the next run.
    pub(in crate::journal) fn note(&mut self, run: &Run<'_>) {
        self.runs += 1;
        if run.kind == Kind::Cleared {
            self.cleared = self.runs;
        }
        self.latest = self.latest.max(run.at.time);
    }
}

/// The treatment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) enum Step {
    /// The run is skipped.
    Pass,
    /// First the time is set to this, if there is one; then the engine is told of the run.
    Tell(Option<Timestamp>),
}

/// The second pass over the runs, in the same order.
pub(in crate::journal) struct Replay {
    useful: Useful,
    /// The age, before the latest time, from which on everything has expired.
    retention: Duration,
    next: u64,
    /// The present, if the engine was not told of it yet.
    time: Option<Timestamp>,
}

impl Replay {
    /// Creates a second pass, for an engine that remembers nothing yet.
    pub(in crate::journal) fn new(useful: Useful, retention: Duration) -> Self {
        Replay { useful, retention, next: 0, time: None }
    }

    /// Decides about the next run.
    pub(in crate::journal) fn step(&mut self, run: &Run<'_>) -> Step {
        self.next += 1;
        if run.kind == Kind::Time {
            self.time = self.time.max(Some(run.at.time));
            return Step::Pass;
        }
        let is_told = match run.kind {
            _ if self.next < self.useful.cleared => false,
            Kind::Accepted | Kind::Fingerprinted => !self.is_over(run),
            Kind::Forgotten => true,
            Kind::Cleared | Kind::Position | Kind::TimeBase | Kind::Time => false,
        };
        if is_told { Step::Tell(self.time.take_if(|time| *time > run.at.time)) } else { Step::Pass }
    }

    /// Returns the time at the end, if the engine was not told of it.
    pub(in crate::journal) fn end(self) -> Option<Timestamp> {
        self.time.max(Some(self.useful.latest)).filter(|time| *time > Timestamp::default())
    }

    /// Returns true if nothing of the run is live at the end, by any clock.
    fn is_over(&self, run: &Run<'_>) -> bool {
        let until = run.at.time.as_nanos().saturating_add(run.at.lag_nanos);
        let until = until.saturating_add(u64::try_from(self.retention.as_nanos()).unwrap_or(u64::MAX));
        until < self.useful.latest.as_nanos()
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::clock::Stamp;
    use crate::digest::Digest;
    use crate::journal::encoding::payload::{Payload, runs};

    const HOUR: Duration = Duration::from_secs(3600);

    fn id(n: u64) -> Digest {
        Digest { place: n, mark: n }
    }

    /// Decides about the runs of a payload.
    fn steps(payload: &Payload) -> (Vec<Step>, Option<Timestamp>) {
        let mut useful = Useful::default();
        runs(payload.bytes()).flatten().for_each(|run| useful.note(&run));
        let mut replay = Replay::new(useful, HOUR);
        let steps = runs(payload.bytes()).flatten().map(|run| replay.step(&run)).collect();
        (steps, replay.end())
    }

    fn accepted(payload: &mut Payload, second: u64) {
        let reading = Timestamp::from_secs(second).into();
        payload.push(super::Kind::Accepted, Stamp { reading, tick: second }, [id(second)]);
    }

    #[test]
    fn what_was_cleared_is_not_told() {
        let mut payload = Payload::default();
        for second in 1..=20_000 {
            accepted(&mut payload, second);
            payload.push_event(Kind::Cleared, Timestamp::from_secs(second));
        }
        accepted(&mut payload, 20_000);
        let (steps, _) = steps(&payload);
        let told: Vec<_> = (0..steps.len()).filter(|i| steps[*i] != Step::Pass).collect();
        assert_eq!(told, [40_000], "the run after the last clearing");
    }

    #[test]
    fn what_is_over_in_the_end_is_not_told() {
        let mut payload = Payload::default();
        for second in [1, 5_000, 8_600] {
            accepted(&mut payload, second);
        }
        let (steps, end) = steps(&payload);
        assert_eq!(steps, [Step::Pass, Step::Tell(None), Step::Tell(None)]);
        assert_eq!(end, Some(Timestamp::from_secs(8_600)));
    }

    #[test]
    fn time_goes_on_with_the_ids_that_come_after_it() {
        let t = Timestamp::from_secs;
        let mut payload = Payload::default();
        (1..1_000).for_each(|second| payload.push_event(Kind::Time, t(second)));
        accepted(&mut payload, 500);
        accepted(&mut payload, 2_000);
        payload.push_event(Kind::Time, t(3_000));
        let (steps, end) = steps(&payload);
        let told: Vec<_> = steps.iter().copied().filter(|step| *step != Step::Pass).collect();
        assert_eq!(told, [Step::Tell(Some(t(999))), Step::Tell(None)]);
        assert_eq!((steps.len(), end), (1_002, Some(t(3_000))));
    }
}
