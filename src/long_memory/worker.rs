//! The thread that seals in time, merges, and deletes what has expired.

use super::sealing::Sealing;
use crate::Timestamp;
use crate::random::any;
use crate::sync::unpoisoned;
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
            let latest = sealing.journal.latest();
            let (now, window) = due.map_or((latest, latest), |(now, window)| (now.max(latest), window));
            rest = match sealing.seal_due(now, window).and_then(|()| sealing.tidy(now, || self.seal_meanwhile(sealing)))
            {
                Ok(()) => GLANCE,
                // Whoever asks meanwhile tries by itself, and learns why it fails.
                Err(_) => (2 * rest).min(REST_MAX).mul_f64(0.75 + (any() % 256) as f64 / 512.0),
            };
        }
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
