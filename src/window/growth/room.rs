//! Room for a table within the budget: berths and memory, and the tables that must go for it.

use super::Growth;
use crate::memory::LINE_BYTES;
use crate::sync::Ordering;
use crate::window::line::Lost;
use crate::window::preparation::Preparation;
use crate::window::roster::{BERTHS, Roster};
use crate::window::sizes::SIZES_MAX;
use crate::window::tables::Tables;
use std::sync::Arc;

/// The outcome of beginning to make a table ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reserved {
    Yes,
    NoRoom,
    NoMemory,
}

impl Growth {
    /// Starts a table of a size, whatever must be done for that; returns false if it is not
    /// possible.
    pub(super) fn start(self: &Arc<Self>, size: usize) -> bool {
        let is_ready = self.state().is_ready(size);
        if !is_ready {
            self.release_spare();
            if size > size_of_berth(self.tables.roster().newest()) {
                self.make_room(size);
            }
            if !self.prepare(size) {
                return false;
            }
        }
        self.start_spare(size)
    }

    /// Starts the table of a size that is ready.
    pub(super) fn start_spare(&self, size: usize) -> bool {
        let mut state = self.state();
        let ready = state.spare.filter(|(spare, _)| *spare == size);
        if !ready.is_some_and(|(_, berth)| self.tables.start(berth)) {
            return false;
        }
        state.spare = None;
        true
    }

    pub(super) fn release_spare(&self) {
        let spare = self.state().spare.take();
        spare.into_iter().for_each(|(_, berth)| self.tables.table(berth).release());
    }

    /// Makes a table of a size ready, together with callers that help; returns false if there is no
    /// memory for it, or not all of it is ready.
    pub(super) fn prepare(self: &Arc<Self>, size: usize) -> bool {
        if self.state().under_way.is_none() && self.reserve(size) != Reserved::Yes {
            return false;
        }
        self.help_with_all();
        self.state().is_ready(size)
    }

    /// Begins to make a table of a size ready, if there is room for it.
    pub(super) fn reserve(&self, size: usize) -> Reserved {
        let reserved = self.reserved();
        let is_free =
            |berth: &usize| self.tables.roster().berths().chain(reserved.iter().copied()).all(|used| used != *berth);
        let Some(berth) = berths_of(size).find(is_free).filter(|_| self.has_room(size)) else {
            return Reserved::NoRoom;
        };
        // Under the lock, so that a child finds all of it, or nothing.
        let mut state = self.state();
        let Ok(life) = self.tables.reserve(berth, self.sizes.lines(size)) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Reserved::NoMemory;
        };
        state.under_way = Some(Arc::new(Preparation::new(&self.tables, berth, size, life)));
        Reserved::Yes
    }

    /// Returns the berths that are in use, though no roster names them.
    pub(super) fn reserved(&self) -> Vec<usize> {
        let state = self.state();
        let spare = state.spare.map(|(_, berth)| berth);
        let under_way = state.under_way.as_ref().map(|preparation| preparation.berth);
        state.releasing.iter().copied().chain(spare).chain(under_way).collect()
    }

    fn has_room(&self, size: usize) -> bool {
        self.used_lines() + self.sizes.lines(size) <= self.budget_bytes / LINE_BYTES
    }

    fn used_lines(&self) -> usize {
        let reserved = self.reserved();
        self.tables.roster().berths().chain(reserved).map(|berth| self.tables.table(berth).lines()).sum()
    }

    /// Retires the oldest tables before their time, if that makes room for a table of a size.
    fn make_room(&self, size: usize) {
        let common = &self.tables.common;
        let newest = self.tables.table(self.tables.roster().newest()).lines();
        let is_worth_it = newest + self.sizes.lines(size) <= self.budget_bytes / LINE_BYTES;
        // Memory that is being given back makes room without that.
        let is_patient = !self.state().releasing.is_empty();
        let must_go = |tables: &Tables| {
            let berth_is_taken = berths_of(size).all(|berth| tables.roster().berths().any(|used| used == berth));
            !self.has_room(size) || berth_is_taken || tables.roster().len() == Roster::LEN_MAX
        };
        while is_worth_it && !is_patient && must_go(&self.tables) {
            let now = common.latest();
            let oldest = self.tables.roster().oldest();
            let live = self.tables.table(oldest).live(&common.moment(common.close()), common.window_ticks);
            let closed = self.tables.times(oldest).closed.unwrap_or(now);
            if self.tables.retire(now, true).is_none() {
                return;
            }
            self.tables.table(oldest).release();
            if live > 0 {
                common.tally.evicted_many(live, Lost { age_ticks: now.saturating_sub(closed), now });
            }
        }
    }
}

/// Returns the berths of a size: each has two.
fn berths_of(size: usize) -> impl Iterator<Item = usize> + Clone {
    const EACH: usize = BERTHS / SIZES_MAX;
    size * EACH..(size + 1) * EACH
}

pub(super) fn size_of_berth(berth: usize) -> usize {
    berth / (BERTHS / SIZES_MAX)
}
