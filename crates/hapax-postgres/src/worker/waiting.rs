//! Runs that are claimed and wait for a handler, and the limit on their number.
//!
//! Slow handlers have no runs waiting for them: a worker with a free handler claims them. Where
//! handlers are so quick that claims would be half of the work, each has some milliseconds' work
//! waiting.

use crate::claims::queue::Run;
use hapax_store::sync::{Mutex, Ordering, StdAtomicBool, lock};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// The work that may wait for one handler.
const AHEAD: Duration = Duration::from_millis(40);
const AHEAD_MAX: u32 = 16;
/// The time after which runs that wait behind something slow are given back.
const WAIT_MAX: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct Waiting(Mutex<State>);

#[derive(Default)]
struct State {
    runs: VecDeque<(Instant, Run)>,
    /// The time that a run took lately.
    took: Option<Duration>,
    /// The time at which a run last ended.
    ended: Option<Instant>,
}

impl Waiting {
    /// Returns the next run, unless all are to be given back.
    pub(super) fn next(&self, is_stopping: &StdAtomicBool) -> Option<Run> {
        if is_stopping.load(Ordering::Relaxed) { None } else { lock(&self.0).runs.pop_front().map(|(_, run)| run) }
    }

    pub(super) fn push(&self, runs: Vec<Run>) {
        let now = Instant::now();
        lock(&self.0).runs.extend(runs.into_iter().map(|run| (now, run)));
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.0).runs.len()
    }

    /// Records the time that a run took.
    pub(super) fn took(&self, took: Duration) {
        let mut state = lock(&self.0);
        state.ended = Some(Instant::now());
        state.took = Some(state.took.map_or(took, |before| (3 * before + took) / 4));
    }

    /// Returns the number of runs that each handler may have, that at hand included.
    ///
    /// It is one if no run has ended for a while: all of them are slow now, however quick they
    /// were. Runs claimed for them would be given back, and claimed again before anybody handles
    /// them.
    pub(super) fn of_each(&self) -> usize {
        let state = lock(&self.0);
        if state.ended.is_none_or(|ended| ended.elapsed() > AHEAD) {
            return 1;
        }
        let took = state.took.unwrap_or(AHEAD).max(Duration::from_micros(1));
        let ahead = u32::try_from(AHEAD.as_micros() / took.as_micros()).unwrap_or(AHEAD_MAX);
        ahead.clamp(1, AHEAD_MAX) as usize
    }

    /// Returns the time at which the first run has waited too long.
    pub(super) fn until(&self) -> Option<Instant> {
        lock(&self.0).runs.front().map(|(since, _)| *since + WAIT_MAX)
    }

    /// Removes the runs that have waited too long, or all.
    pub(super) fn give_back(&self, now: Instant, all: bool) -> Vec<Run> {
        let mut state = lock(&self.0);
        let late = state.runs.iter().take_while(|(since, _)| all || now >= *since + WAIT_MAX).count();
        state.runs.drain(..late).map(|(_, run)| run).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(token: i64) -> Run {
        Run { name: "c".into(), key: None, token, claimed_at: Instant::now(), messages: vec![] }
    }

    #[test]
    fn only_quick_handlers_have_work_in_front_of_them() {
        let waiting = Waiting::default();
        assert_eq!(waiting.of_each(), 1, "nobody knows yet");
        let of_each = |took: u64, times| {
            (0..times).for_each(|_| waiting.took(Duration::from_micros(took)));
            waiting.of_each()
        };
        assert_eq!(of_each(300_000, 1), 1);
        assert_eq!(of_each(1_000, 50), 16);
        assert_eq!(of_each(10_000, 50), 4);
        assert_eq!(of_each(30_000_000, 1), 1, "one that hung");
        assert_eq!(of_each(0, 100), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_claimed_in_front_of_handlers_that_all_hang() {
        let waiting = Waiting::default();
        (0..50).for_each(|_| waiting.took(Duration::from_millis(1)));
        assert_eq!(waiting.of_each(), 16);
        tokio::time::advance(AHEAD + Duration::from_millis(1)).await;
        assert_eq!(waiting.of_each(), 1);
        waiting.took(Duration::from_millis(1));
        assert_eq!(waiting.of_each(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_too_long_is_given_back() {
        let (waiting, go_on) = (Waiting::default(), StdAtomicBool::new(false));
        let start = Instant::now();
        waiting.push(vec![run(1), run(2)]);
        tokio::time::advance(WAIT_MAX / 2).await;
        waiting.push(vec![run(3), run(4)]);
        let tokens = |runs: Vec<Run>| runs.into_iter().map(|run| run.token).collect::<Vec<_>>();
        assert_eq!(waiting.next(&go_on).map(|run| run.token), Some(1));
        assert_eq!(waiting.until(), Some(start + WAIT_MAX));
        assert_eq!(tokens(waiting.give_back(start + WAIT_MAX, false)), [2]);
        assert_eq!((waiting.next(&StdAtomicBool::new(true)), waiting.len()), (None, 2));
        assert_eq!(tokens(waiting.give_back(start, true)), [3, 4]);
        assert_eq!(waiting.until(), None);
    }
}
