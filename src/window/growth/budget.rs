//! Room for a table within the budget: indices and memory, and the tables that must go for it.

use super::Growth;
use crate::memory::LINE_BYTES;
use crate::sync::Ordering;
use crate::window::growth::preparation::Preparation;
use crate::window::growth::sizes::SIZES_MAX;
use crate::window::protocol::bucket_memory::Lost;
use crate::window::table_set::roster::{INDICES, Roster};
use crate::window::table_set::tables::Tables;
use std::sync::Arc;

/// The outcome of beginning to make a table ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reserved {
    Yes,
    NoRoom,
    NoMemory,
}

/// The outcome of an attempt to start a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    Yes,
    /// Not yet: others are about to make it ready, so it is worth another attempt at once.
    Soon,
    No,
}

impl Growth {
    /// Starts a table of a size, whatever must be done for that.
    pub(crate) fn start(self: &Arc<Self>, size: usize) -> Started {
        let (is_ready, is_under_way) = {
            let state = self.state();
            (state.is_ready(size), state.under_way.is_some())
        };
        if !is_ready {
            self.release_spare();
            // (What is under way has its room already.)
            if !is_under_way && size > size_at(self.tables.roster().newest()) {
                self.make_room(size);
            }
            let prepared = self.prepare(size);
            if prepared != Started::Yes {
                return prepared;
            }
        }
        if self.start_spare(size) { Started::Yes } else { Started::No }
    }

    /// Starts the table of a size that is ready.
    pub(super) fn start_spare(&self, size: usize) -> bool {
        let mut state = self.state();
        let ready = state.spare.filter(|spare| spare.size == size);
        if !ready.is_some_and(|spare| self.tables.start(spare.index)) {
            return false;
        }
        state.spare = None;
        true
    }

    pub(super) fn release_spare(&self) {
        let spare = self.state().spare.take();
        spare.into_iter().for_each(|spare| self.tables.table(spare.index).release());
    }

    /// Makes a table of a size ready to be started, together with callers that help.
    pub(super) fn prepare(self: &Arc<Self>, size: usize) -> Started {
        if self.state().under_way.is_none() && self.reserve(size) != Reserved::Yes {
            return Started::No;
        }
        self.help_with_all();
        // At one moment: whoever helps with the last part may finish it now.
        let state = self.state();
        match &state.under_way {
            _ if state.is_ready(size) => Started::Yes,
            Some(_) => Started::Soon,
            // A table of another size was under way, and is in the way no more.
            None if state.spare.is_some() => Started::Soon,
            None => Started::No,
        }
    }

    /// Begins to make a table of a size ready, if there is room for it.
    pub(super) fn reserve(&self, size: usize) -> Reserved {
        let reserved = self.reserved();
        let is_free =
            |index: &usize| self.tables.roster().indices().chain(reserved.iter().copied()).all(|used| used != *index);
        let Some(index) = indices_of(size).find(is_free).filter(|_| self.has_room(size)) else {
            return Reserved::NoRoom;
        };
        // Under the lock, so that a child finds all of it, or nothing.
        let mut state = self.state();
        let Ok(life) = self.tables.reserve(index, self.sizes.buckets(size)) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Reserved::NoMemory;
        };
        state.under_way = Some(Arc::new(Preparation::new(&self.tables, index, size, life)));
        Reserved::Yes
    }

    /// Returns the indices that are in use, though no roster names them.
    pub(super) fn reserved(&self) -> Vec<usize> {
        let state = self.state();
        let spare = state.spare.map(|spare| spare.index);
        let under_way = state.under_way.as_ref().map(|preparation| preparation.index);
        state.releasing.iter().copied().chain(spare).chain(under_way).collect()
    }

    fn has_room(&self, size: usize) -> bool {
        self.used_buckets() + self.sizes.buckets(size) <= self.budget_bytes / LINE_BYTES
    }

    fn used_buckets(&self) -> usize {
        let reserved = self.reserved();
        self.tables.roster().indices().chain(reserved).map(|index| self.tables.table(index).buckets()).sum()
    }

    /// Retires the oldest tables before their time, if that makes room for a table of a size.
    fn make_room(&self, size: usize) {
        let shared = &self.tables.shared;
        let newest = self.tables.table(self.tables.roster().newest()).buckets();
        let is_worth_it = newest + self.sizes.buckets(size) <= self.budget_bytes / LINE_BYTES;
        // Memory that is being given back makes room without that.
        let is_patient = !self.state().releasing.is_empty();
        let must_go = |tables: &Tables| {
            let index_is_taken = indices_of(size).all(|index| tables.roster().indices().any(|used| used == index));
            !self.has_room(size) || index_is_taken || tables.roster().len() == Roster::LEN_MAX
        };
        while is_worth_it && !is_patient && must_go(&self.tables) {
            let now = shared.latest();
            let oldest = self.tables.roster().oldest();
            let live = self.tables.table(oldest).live(&shared.moment(shared.close()), shared.window_ticks);
            let closed = self.tables.times(oldest).closed.unwrap_or(now);
            if self.tables.retire(now, true).is_none() {
                return;
            }
            self.tables.table(oldest).release();
            if live > 0 {
                shared.counters.evicted_many(live, Lost { age_ticks: now.saturating_sub(closed), now });
            }
        }
    }
}

/// Returns the indices of a size: each has two.
fn indices_of(size: usize) -> impl Iterator<Item = usize> + Clone {
    const EACH: usize = INDICES / SIZES_MAX;
    size * EACH..(size + 1) * EACH
}

pub(super) fn size_at(index: usize) -> usize {
    index / (INDICES / SIZES_MAX)
}
