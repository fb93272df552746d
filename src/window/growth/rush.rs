//! The work of callers in a rush, so that the newest table loses no ids before the next one is
//! ready.

use super::budget::Reserved;
use super::sampling::Again;
use super::{Growth, Spare};
use crate::memory::LINE_BYTES;
use crate::sync::Ordering;
use crate::window::growth::preparation::{Part, Preparation};
use crate::window::growth::survey::Survey;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest that a caller waits before it goes on with a table that is overfull.
const PATIENCE: Duration = Duration::from_millis(10);

/// The most parts of a table that the caller that needs it in a rush makes ready: a thread would
/// come too late.
const SMALL_PARTS: usize = 1;

impl Growth {
    /// Does, in a rush, what must not wait for a thread: starts a table that is ready or soon made
    /// ready, and has a large one made ready. Returns false if there is no room, and other tables
    /// would have to go first.
    pub(super) fn hurry(self: &Arc<Self>, size: usize) -> bool {
        if !self.state().is_ready(size) {
            self.release_spare();
            match self.reserve(size) {
                Reserved::NoRoom => return false,
                Reserved::NoMemory => {
                    self.set_trigger(Again::InVain);
                    return true;
                }
                Reserved::Yes => (),
            }
            if !self.is_small(size) {
                // (Without a thread callers do it all.)
                self.in_background(Self::help_with_all);
                return true;
            }
            self.help_with_all();
            if self.state().under_way.is_some() {
                // The caller that helps with the last part will do it.
                return true;
            }
        }
        let started = self.start_spare(size);
        self.set_trigger(if started { Again::Soon } else { Again::InVain });
        true
    }

    fn is_small(&self, size: usize) -> bool {
        self.sizes.buckets(size) * LINE_BYTES <= SMALL_PARTS * crate::memory::PART_BYTES
    }

    /// Makes a part of the next table ready, if one is under way; returns true if there may be more
    /// to do.
    pub(super) fn help(self: &Arc<Self>) -> bool {
        let Some(preparation) = self.state().under_way.clone() else {
            return false;
        };
        match preparation.help(&self.tables) {
            Part::Done => true,
            Part::NoneLeft => false,
            Part::Last { ready } => {
                self.finish(&preparation, ready);
                if ready {
                    // The table may be needed at once.
                    self.handle_trigger();
                }
                false
            }
        }
    }

    /// Makes a part of the next table ready. If other callers have begun the last part, or are just
    /// about to start a table, and the newest would lose ids, waits for them: some microseconds,
    /// unless the system runs something else instead of that thread.
    pub(super) fn help_or_wait(self: &Arc<Self>) {
        if self.help() || !self.tables.shared.trigger.is_urgent() {
            return;
        }
        let (roster, since) = (self.tables.roster(), Instant::now());
        let is_due = || {
            let under_way = self.state().under_way.clone();
            under_way.map_or_else(|| !self.busy.load(Ordering::Relaxed), |preparation| preparation.has_more())
        };
        while self.tables.roster() == roster && !is_due() && since.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        #[cfg(all(test, not(modelled)))]
        tests::IMPATIENT.set(tests::IMPATIENT.get() + u64::from(since.elapsed() >= PATIENCE));
    }

    pub(super) fn help_with_all(self: &Arc<Self>) {
        while self.help() {}
    }

    /// Finishes a table whose parts are all done.
    fn finish(&self, preparation: &Preparation, ready: bool) {
        let Preparation { size, index, .. } = *preparation;
        if !ready {
            self.tables.table(index).release();
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.set_trigger(Again::InVain);
        }
        let mut state = self.state();
        state.under_way = None;
        state.spare = ready.then_some(Spare { size, index }).or(state.spare);
    }

    /// Begins to make the next table ready if a rush is about to fill the newest one, and there is
    /// room for both. Returns true if it has.
    pub(super) fn prepare_ahead(&self, survey: &Survey) -> bool {
        let size = survey.size + 1;
        let is_ahead = self.in_thread() && survey.is_rush_ahead() && size < self.sizes.count() && !self.is_small(size);
        let is_free = {
            let state = self.state();
            state.spare.is_none() && state.under_way.is_none()
        };
        is_ahead && is_free && self.reserve(size) == Reserved::Yes
    }
}

#[cfg(all(test, not(modelled)))]
mod tests;
