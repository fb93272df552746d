//! The thread that seals in time, merges, and deletes what has expired.

use super::sealing::Sealing;
use crate::random::any;
use crate::sync::unpoisoned;
use crate::{SegmentError, Timestamp};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time after which the thread looks for itself, if nobody calls it.
const GLANCE: Duration = Duration::from_secs(1);

/// The longest rest after errors.
const REST_MAX: Duration = Duration::from_secs(16);

/// The thread, and what others tell it.
pub(super) struct Worker {
    shared: Arc<Told>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Told {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The time for which sealing is due, and that by which the window forgets.
    due: Option<(Timestamp, Timestamp)>,
    is_ending: bool,
}

impl Worker {
    pub(super) fn start(sealing: Arc<Sealing>) -> std::io::Result<Self> {
        let shared = Arc::new(Told::default());
        let told = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("hapax-sealing".into()).spawn(move || told.run(&sealing))?;
        Ok(Worker { shared, thread: Some(thread) })
    }

    /// Asks for sealing, for a time, and that by which the window forgets.
    pub(super) fn call(&self, now: Timestamp, window: Timestamp) {
        unpoisoned(self.shared.state.lock()).due = Some((now, window));
        self.shared.changed.notify_one();
    }

    /// Ends the thread: without what it has not begun.
    pub(super) fn end(&mut self) {
        unpoisoned(self.shared.state.lock()).is_ending = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, there is nobody left to tell.
            let _ = thread.join();
        }
    }

    /// Leaves the thread alone: it is another process's.
    pub(super) fn leave(&mut self) {
        std::mem::forget(self.thread.take());
    }
}

impl Told {
    fn run(&self, sealing: &Sealing) {
        let mut rest = GLANCE;
        while let Some(due) = self.next(rest) {
            rest = match self.turn(sealing, due) {
                Ok(()) => GLANCE,
                // Whoever asks meanwhile tries by itself, and learns why it fails.
                Err(_) => (2 * rest).min(REST_MAX).mul_f64(0.75 + (any() % 256) as f64 / 512.0),
            };
        }
    }

    /// Seals if that is due still, expires and merges.
    fn turn(&self, sealing: &Sealing, due: Option<(Timestamp, Timestamp)>) -> Result<(), SegmentError> {
        let latest = sealing.journal.latest();
        let (now, window) = due.map_or((latest, latest), |(now, window)| (now.max(latest), window));
        sealing.seal_due(now, window)?;
        sealing.tidy(now, || self.seal_meanwhile(sealing))
    }

    /// Waits until there is something to do, but no longer than this. Returns the times for which
    /// sealing is due, if it is; `None` at the end.
    fn next(&self, longest: Duration) -> Option<Option<(Timestamp, Timestamp)>> {
        let state = unpoisoned(self.state.lock());
        let is_idle = |state: &mut State| state.due.is_none() && !state.is_ending;
        let (mut state, _) = unpoisoned(self.changed.wait_timeout_while(state, longest, is_idle));
        (!state.is_ending).then(|| state.due.take())
    }

    /// Seals, if that is due by now: a merge takes longer than the time from one sealing to the
    /// next, and goes on after it. Returns false at the end.
    fn seal_meanwhile(&self, sealing: &Sealing) -> bool {
        let (due, is_ending) = {
            let mut state = unpoisoned(self.state.lock());
            (state.due.take(), state.is_ending)
        };
        if let (Some((now, window)), false) = (due, is_ending) {
            // If it fails, whoever asks tries again.
            let _ = sealing.seal_due(now, window);
        }
        !is_ending
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::super::tests::{WINDOW, World};
    use super::*;

    #[test]
    fn a_call_that_was_made_before_somebody_sealed_makes_no_segment() {
        let world = World::new();
        let dedup = world.open();
        let now = || dedup.engine.now_at_rest().time;
        let sealing = &dedup.engine.long.as_deref().unwrap().sealing;
        let segments = || sealing.segments.stats().segments;
        let told = Told::default();
        for (is_merging, before) in [(false, 0), (true, 2)] {
            // Sealed by the call …
            assert!(dedup.check(format!("a {is_merging}")).is_fresh());
            world.pass(WINDOW.as_secs() / 2);
            let called = Some((now(), now()));
            let seal = |due| {
                if is_merging {
                    told.state.lock().unwrap().due = due;
                    assert!(told.seal_meanwhile(sealing));
                } else {
                    told.turn(sealing, due).unwrap();
                }
            };
            seal(called);
            assert_eq!(segments(), before + 1, "merging: {is_merging}");
            // … which comes once more: somebody has checked between the two.
            assert!(dedup.check(format!("b {is_merging}")).is_fresh());
            seal(called);
            assert_eq!(segments(), before + 1, "merging: {is_merging}");
            world.pass(WINDOW.as_secs() / 2);
            seal(Some((now(), now())));
            assert_eq!(segments(), before + 2, "merging: {is_merging}");
        }
    }
}
