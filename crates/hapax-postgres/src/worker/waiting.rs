//! Runs that are claimed and wait for a handler, and the limit on their number.
//!
//! Slow handlers have no runs waiting for them: a worker with a free handler claims them. Where
//! handlers are so quick that claims would be half of the work, each has some milliseconds' work
//! waiting. A batch waits for a while until it is full.

use crate::claims::queue::Run;
use hapax_store::sync::{Mutex, Ordering, StdAtomicBool, lock};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// The work that may wait for one handler.
const AHEAD: Duration = Duration::from_millis(40);
const AHEAD_MAX: u32 = 16;
/// The time after which runs that could be handled, but wait behind something slow, are given back.
const WAIT_MAX: Duration = Duration::from_millis(200);

pub(super) struct Waiting {
    /// The most runs that a handler has at a time, and the time for which one waits for others.
    size: usize,
    within: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: VecDeque<(Instant, Run)>,
    /// The time that a run took lately.
    took: Option<Duration>,
    /// The time at which a run last ended.
    ended: Option<Instant>,
}

impl Waiting {
    pub(super) fn new(size: usize, within: Duration) -> Self {
        Waiting { size, within, state: Mutex::default() }
    }

    /// Returns the most runs that a handler has at a time.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the next runs for a handler that has this many, unless all are to be given back, or
    /// they wait for others.
    pub(super) fn next(&self, held: usize, is_stopping: &StdAtomicBool) -> Vec<Run> {
        let (mut state, room) = (lock(&self.state), self.size.saturating_sub(held));
        if is_stopping.load(Ordering::Relaxed) || (state.runs.len() < room && !self.is_due(&state)) {
            return Vec::new();
        }
        let next = room.min(state.runs.len());
        state.runs.drain(..next).map(|(_, run)| run).collect()
    }

    /// Returns true if the first run has waited for others long enough.
    fn is_due(&self, state: &State) -> bool {
        state.runs.front().is_some_and(|(since, _)| since.elapsed() >= self.within)
    }

    /// Returns how many handlers could have runs now.
    pub(super) fn batches(&self) -> usize {
        let state = lock(&self.state);
        if self.is_due(&state) { state.runs.len().div_ceil(self.size) } else { state.runs.len() / self.size }
    }

    pub(super) fn push(&self, runs: Vec<Run>) {
        let now = Instant::now();
        lock(&self.state).runs.extend(runs.into_iter().map(|run| (now, run)));
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.state).runs.len()
    }

    /// Records the time that a run took.
    pub(super) fn took(&self, took: Duration) {
        let mut state = lock(&self.state);
        state.ended = Some(Instant::now());
        state.took = Some(state.took.map_or(took, |before| (3 * before + took) / 4));
    }

    /// Returns the number of batches that each handler may have, that at hand included.
    ///
    /// It is one if no run has ended for a while: all of them are slow now, however quick they
    /// were. Runs claimed for them would be given back, and claimed again before anybody handles
    /// them.
    pub(super) fn of_each(&self) -> usize {
        let state = lock(&self.state);
        if state.ended.is_none_or(|ended| ended.elapsed() > AHEAD) {
            return 1;
        }
        let took = state.took.unwrap_or(AHEAD).max(Duration::from_micros(1));
        let ahead = u32::try_from(AHEAD.as_micros() / took.as_micros()).unwrap_or(AHEAD_MAX);
        (ahead.clamp(1, AHEAD_MAX) as usize).min((AHEAD_MAX as usize / self.size).max(2))
    }

    /// Returns the time at which the first run has waited for others long enough, or if that is
    /// over, too long for a handler.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        let due = lock(&self.state).runs.front().map(|(since, _)| *since + self.within);
        due.map(|due| if due > now { due } else { due + WAIT_MAX })
    }

    /// Removes the runs that have waited too long, or all.
    pub(super) fn give_back(&self, now: Instant, all: bool) -> Vec<Run> {
        let mut state = lock(&self.state);
        let is_late = |since: Instant| all || now >= since + self.within + WAIT_MAX;
        let late = state.runs.iter().take_while(|(since, _)| is_late(*since)).count();
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
        let waiting = Waiting::new(1, Duration::ZERO);
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
        let waiting = Waiting::new(1, Duration::ZERO);
        (0..50).for_each(|_| waiting.took(Duration::from_millis(1)));
        assert_eq!(waiting.of_each(), 16);
        tokio::time::advance(AHEAD + Duration::from_millis(1)).await;
        assert_eq!(waiting.of_each(), 1);
        waiting.took(Duration::from_millis(1));
        assert_eq!(waiting.of_each(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_too_long_is_given_back() {
        let (waiting, go_on) = (Waiting::new(1, Duration::ZERO), StdAtomicBool::new(false));
        let start = Instant::now();
        waiting.push(vec![run(1), run(2)]);
        tokio::time::advance(WAIT_MAX / 2).await;
        waiting.push(vec![run(3), run(4)]);
        let tokens = |runs: Vec<Run>| runs.into_iter().map(|run| run.token).collect::<Vec<_>>();
        assert_eq!(tokens(waiting.next(0, &go_on)), [1]);
        assert_eq!(waiting.until(start), Some(start + WAIT_MAX));
        assert_eq!(tokens(waiting.give_back(start + WAIT_MAX, false)), [2]);
        assert_eq!((waiting.next(0, &StdAtomicBool::new(true)).len(), waiting.len()), (0, 2));
        assert_eq!(tokens(waiting.give_back(start, true)), [3, 4]);
        assert_eq!(waiting.until(start), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_waits_until_it_is_full_or_its_first_has_waited() {
        let (within, go_on) = (Duration::from_millis(300), StdAtomicBool::new(false));
        let (waiting, start) = (Waiting::new(3, within), Instant::now());
        let tokens = |runs: Vec<Run>| runs.into_iter().map(|run| run.token).collect::<Vec<_>>();
        waiting.push((1..=5).map(run).collect());
        assert_eq!((waiting.batches(), tokens(waiting.next(1, &go_on))), (1, vec![1, 2]), "one is at hand");
        assert_eq!((waiting.batches(), tokens(waiting.next(0, &go_on))), (1, vec![3, 4, 5]));
        waiting.push(vec![run(6)]);
        assert_eq!(
            (waiting.batches(), waiting.next(0, &go_on).len(), waiting.until(start)),
            (0, 0, Some(start + within))
        );
        assert_eq!(
            (tokens(waiting.next(2, &go_on)), waiting.next(3, &go_on).len()),
            (vec![6], 0),
            "it has room for one"
        );
        waiting.push(vec![run(7)]);
        tokio::time::advance(within).await;
        let due = start + within;
        assert!(waiting.give_back(due, false).is_empty() && waiting.until(due) == Some(due + WAIT_MAX));
        assert_eq!((waiting.batches(), tokens(waiting.next(0, &go_on))), (1, vec![7]));
        (0..50).for_each(|_| waiting.took(Duration::from_micros(1)));
        assert_eq!((waiting.of_each(), Waiting::new(500, within).of_each()), (5, 1));
    }
}
