//! The management of a window's tables: starts a table when the newest is full or too large,
//! retires those that have expired, and keeps all of it within the budget.
//!
//! Callers notice that there may be something to do
//! ([`GrowthTrigger`](super::table_set::trigger::GrowthTrigger)) and look at a sample of buckets,
//! which takes some microseconds. Asking the system for memory and giving it back takes longer,
//! and is done by a thread that lives as long as that takes; callers go on with the tables that
//! they have.
//!
//! The exception is a rush, in which the newest table would lose ids before the thread has the next
//! one ready. Then callers do not go on to overfill it: those that notice start the next one, a
//! small one at once; of a large one each makes a [part](self::preparation) ready, as the thread
//! does, and goes on. So the rate of insertions is slowed down to the rate at which the system
//! provides memory, and no caller waits long.

mod budget;
mod preparation;
mod rush;
mod sampling;
pub(super) mod sizes;
pub(super) mod survey;

pub(crate) use self::budget::Started;
use self::sampling::Again;
use super::table_set::table::Table;
use super::table_set::tables::Tables;
use crate::process::{Held, Rank, Rest, at_rest_in_forks};
use crate::sync::{Ordering, StdAtomicBool, StdAtomicU64, unpoisoned};
use preparation::Preparation;
use sizes::Sizes;
use std::sync::{Arc, Mutex, MutexGuard};
use survey::Full;

/// The tables of a window, and the sizes that they may get.
pub(crate) struct Growth {
    pub(crate) tables: Tables,
    sizes: Sizes,
    budget_bytes: usize,
    /// True if a thread does the work that takes long; otherwise the caller that finds it due does
    /// it, early enough for nothing to be lost.
    in_thread: StdAtomicBool,
    full: Full,
    /// True if a caller manages the tables now: only that caller may reserve, start and retire
    /// them.
    busy: StdAtomicBool,
    state: Mutex<State>,
    refused: StdAtomicU64,
}

/// The state for the caller that manages the tables.
struct State {
    /// A table that is ready before it is needed …
    spare: Option<Spare>,
    /// … or will be.
    under_way: Option<Arc<Preparation>>,
    /// The indices of retired tables whose memory is being given back.
    releasing: Vec<usize>,
    /// True in a child, if a thread of the parent was about to give memory back, or to make some
    /// ready.
    is_abandoned: bool,
}

/// A table that is ready to be started.
#[derive(Clone, Copy)]
struct Spare {
    size: usize,
    index: usize,
}

/// The number of buckets in a quick survey, which finds the load to 1.1 % of the slots (a
/// deviation). It suffices most of the time for the first table, at the load that it is rated for:
/// nothing but that it is full can be found out about it.
const QUICK_SURVEY_BUCKETS: usize = SURVEY_BUCKETS / 4;
/// The number of buckets in a survey, which finds the load to 0.7 % of the slots (a deviation):
/// that of a table that is rated right is never found too high, that of one with 7 % more once in
/// 50 …
const SURVEY_BUCKETS: usize = 1024;
/// … and the number in a thorough one, which comes before anything is done about it: never.
const THOROUGH_SURVEY_BUCKETS: usize = 16 * SURVEY_BUCKETS;

impl Growth {
    /// Creates tables, from a first one on to as many as the budget allows.
    pub(crate) fn new(first: Table, window_ticks: u64, budget_bytes: usize, in_thread: bool) -> Arc<Self> {
        let sizes = Sizes::new(first.buckets(), budget_bytes);
        let growth = Arc::new(Growth {
            tables: Tables::new(first, window_ticks),
            sizes,
            budget_bytes,
            in_thread: StdAtomicBool::new(in_thread),
            full: if in_thread { Full::RATED } else { Full::LOSSLESS },
            busy: StdAtomicBool::new(false),
            state: Mutex::new(State::new()),
            refused: StdAtomicU64::new(0),
        });
        if growth.sizes.count() > 1 {
            let weak = Arc::downgrade(&growth);
            growth.tables.shared.trigger.connect(move || {
                weak.upgrade().into_iter().for_each(|growth| growth.handle_trigger());
            });
        }
        growth.set_trigger(Again::Soon);
        at_rest_in_forks(&growth);
        growth
    }

    /// Sets whether a thread makes memory ready from now on.
    pub(crate) fn grow_in_thread(&self, in_thread: bool) {
        self.in_thread.store(in_thread, Ordering::Relaxed);
    }

    /// Begins to make a table of a size ready; returns false if there is no room for it.
    #[cfg(all(test, not(modelled)))]
    pub(crate) fn begin_table(&self, size: usize) -> bool {
        self.reserve(size) == budget::Reserved::Yes
    }

    fn in_thread(&self) -> bool {
        self.in_thread.load(Ordering::Relaxed)
    }

    /// Returns the number of times that there was no memory for a table.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the bytes that all tables take, including those that are ready or being made ready,
    /// and those whose memory is being given back.
    pub(crate) fn bytes(&self) -> usize {
        let reserved = self.reserved();
        let used = self.tables.roster().indices().chain(reserved);
        used.map(|index| self.tables.table(index).bytes()).sum::<usize>() + size_of_val(self)
    }

    /// Returns true if it is for the caller to manage the tables; then the caller must `end` it.
    fn begin(&self) -> bool {
        // Acquire: partner of the release in `end`, which hands over the work of the previous
        // caller.
        !self.busy.load(Ordering::Relaxed) && !self.busy.swap(true, Ordering::Acquire)
    }

    fn end(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Looks after the tables when the trigger has fired: there may be something to do.
    fn handle_trigger(self: &Arc<Self>) {
        if !self.begin() {
            return self.help_or_wait();
        }
        self.take_over();
        let mut survey = self.survey(QUICK_SURVEY_BUCKETS);
        if !survey.is_first() || !survey.has_room(self.full) {
            survey = self.survey(SURVEY_BUCKETS);
        }
        if survey.is_rush() && survey.is_first() {
            // It is acted upon at once, and a table that has room for the ids may seem not to.
            survey = self.survey(THOROUGH_SURVEY_BUCKETS);
        }
        let wanted = survey.wants(&self.sizes, self.full);
        if let Some(size) = wanted
            && survey.is_rush()
        {
            if self.state().under_way.is_some() {
                self.end();
                return self.help_or_wait();
            }
            if self.in_thread() && self.hurry(size) {
                return self.end();
            }
        }
        if self.prepare_ahead(&survey) {
            // (Without a thread callers do it all.)
            self.in_background(Self::help_with_all);
        }
        let expired = self.tables.has_expired(self.tables.shared.latest());
        if wanted.is_none() && !expired && !self.has_needless_spare(&survey) {
            self.set_trigger(if survey.may_become_rush() { Again::Soon } else { Again::Later });
            return self.end();
        }
        if !self.in_thread() || !self.in_background(Self::look_after) {
            // Without a thread: better late than never.
            self.look_after();
        }
    }

    /// Does something in a thread; returns false if no thread can be started.
    fn in_background(self: &Arc<Self>, work: impl Fn(&Arc<Self>) + Send + 'static) -> bool {
        let growth = Arc::clone(self);
        let thread = std::thread::Builder::new().name("hapax-window".into());
        thread.spawn(move || work(&growth)).is_ok()
    }

    /// Does all management that is due, and ends the turn.
    fn look_after(self: &Arc<Self>) {
        if self.retire_expired() && !self.begin() {
            // Another caller has found something to do meanwhile.
            return;
        }
        let survey = self.survey(THOROUGH_SURVEY_BUCKETS);
        if self.has_needless_spare(&survey) {
            self.release_spare();
        }
        let wanted = survey.wants(&self.sizes, self.full);
        match wanted.map(|size| (self.start(size), size)) {
            // The next caller that notices starts it.
            Some((Started::Soon, _)) => (),
            Some((Started::No, size)) if size > survey.size => self.set_trigger(Again::InVain),
            _ => self.set_trigger(Again::Soon),
        }
        self.end();
    }

    /// Retires tables that have expired, and gives their memory back. That takes long, so other
    /// callers may manage the tables meanwhile. Returns true if there was any, so that the caller's
    /// turn has ended.
    fn retire_expired(&self) -> bool {
        let retire = || self.tables.retire(self.tables.shared.latest(), false);
        let mut retired = Vec::new();
        while let Some(index) = retire() {
            self.state().releasing.push(index);
            retired.push(index);
        }
        if retired.is_empty() {
            return false;
        }
        self.end();
        for index in retired {
            self.tables.table(index).release();
            self.state().releasing.retain(|releasing| *releasing != index);
        }
        true
    }

    /// Ends, in a child, the work that a thread of the parent has not ended.
    fn take_over(&self) {
        let abandoned = {
            let mut state = self.state();
            if std::mem::take(&mut state.is_abandoned) {
                (state.under_way.take(), std::mem::take(&mut state.releasing))
            } else {
                return;
            }
        };
        let (under_way, releasing) = abandoned;
        let indices = under_way.map(|preparation| preparation.index).into_iter().chain(releasing);
        indices.for_each(|index| self.tables.table(index).release());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that panics is done under this lock.
        unpoisoned(self.state.lock())
    }
}

impl Rest for Growth {
    fn rank(&self) -> Rank {
        Rank::Growth
    }

    fn hold<'s>(&'s self, held: &mut Vec<Box<dyn Held + 's>>) {
        held.push(Box::new(AtRest { growth: self, state: self.state() }));
    }
}

/// A guard during which no caller begins or ends anything. Work that takes longer than a moment may
/// be under way.
#[cfg_attr(any(not(unix), modelled), allow(dead_code, reason = "there are no forks"))]
struct AtRest<'g> {
    growth: &'g Growth,
    state: MutexGuard<'g, State>,
}

impl Held for AtRest<'_> {
    fn in_child(&mut self) {
        // The thread that managed the tables does not exist in the child.
        self.growth.busy.store(false, Ordering::Release);
        self.growth.tables.shared.nobody_is_clearing();
        self.state.is_abandoned = self.state.under_way.is_some() || !self.state.releasing.is_empty();
    }
}

impl State {
    fn new() -> Self {
        State { spare: None, under_way: None, releasing: Vec::new(), is_abandoned: false }
    }

    fn is_ready(&self, size: usize) -> bool {
        self.spare.is_some_and(|spare| spare.size == size)
    }
}
