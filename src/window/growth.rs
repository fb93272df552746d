//! Looks after a window's tables: starts one when the newest is full or too large, retires those that have expired, and keeps all
//! of it within the budget.
//!
//! Callers notice that there may be something to do ([`Bell`](super::common::Bell)) and look at a sample of lines, which takes some
//! microseconds. What takes longer, asking the system for memory and giving it back, is done by a thread that lives as long as
//! that takes; callers go on with the tables that they have.
//!
//! Unless there is a rush, and the newest table would lose ids before the thread has the next one
//! ready. Then callers do not go on to overfill it: those that notice start the next one, a small
//! one at once; of a large one each makes a [part](super::preparation) ready, as the thread does,
//! and goes on. So what a caller inserts is slowed down to what the system has memory for, and none
//! waits long.

mod looking;
mod room;
mod rush;

use self::looking::Again;
use super::preparation::Preparation;
use super::sizes::Sizes;
use super::survey::Full;
use super::table::Table;
use super::tables::Tables;
use crate::Error;
use crate::process::{Held, Rank, Rest, at_rest_in_forks};
use crate::sync::{Ordering, StdAtomicBool, StdAtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A window's tables, and what they may become.
pub(crate) struct Growth {
    pub(crate) tables: Tables,
    sizes: Sizes,
    budget_bytes: usize,
    /// Whether a thread does what takes long; else the caller that finds it due, early enough for nothing to be lost.
    in_thread: StdAtomicBool,
    full: Full,
    /// True if somebody looks after the tables now: only who does may reserve, start and retire
    /// them.
    busy: StdAtomicBool,
    state: Mutex<State>,
    refused: StdAtomicU64,
}

/// For whoever looks after the tables.
struct State {
    /// A table that is ready before it is needed …
    spare: Option<(usize, usize)>,
    /// … or will be.
    under_way: Option<Arc<Preparation>>,
    /// Berths of tables that were retired, whose memory is on its way back.
    releasing: Vec<usize>,
    /// True in a child, if a thread of the parent was about to give memory back, or to make some
    /// ready.
    is_abandoned: bool,
}

/// In a survey of these many lines, the load of a table that is rated right is found too high once in 3,000 times …
const SURVEY_LINES: usize = 1024;
/// … and in one of these, which comes before anything is done about it, never.
const THOROUGH_SURVEY_LINES: usize = 16 * SURVEY_LINES;

impl Growth {
    /// Tables, from a first one on to as many as the budget allows.
    pub(crate) fn new(first: Table, window_ticks: u64, budget_bytes: usize, in_thread: bool) -> Arc<Self> {
        let sizes = Sizes::new(first.lines(), budget_bytes);
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
        if growth.sizes.len() > 1 {
            let weak = Arc::downgrade(&growth);
            growth.tables.common.bell.connect(move || {
                weak.upgrade().into_iter().for_each(|growth| growth.answer());
            });
        }
        growth.set_bell(Again::Soon);
        at_rest_in_forks(&growth);
        growth
    }

    /// Whether memory is made ready by a thread, from now on.
    pub(crate) fn grow_in_thread(&self, in_thread: bool) {
        self.in_thread.store(in_thread, Ordering::Relaxed);
    }

    /// While this is off, nobody notices that a table is full or has expired.
    pub(crate) fn look_after_tables(&self, on: bool) {
        // Release: partner of the acquire in `begin`.
        self.busy.store(!on, Ordering::Release);
        self.set_bell(Again::Soon);
    }

    /// Starts a table of so many lines; the first takes the place of the one that there is. Only before anybody else knows the window.
    pub(crate) fn restore_table(self: &Arc<Self>, lines: usize, is_first: bool) -> Result<(), Error> {
        let sizes = 0..self.sizes.len();
        let size = sizes.into_iter().find(|&size| self.sizes.lines(size) == lines);
        if is_first && size == Some(0) {
            return Ok(());
        }
        let started = size.is_some_and(|size| self.prepare(size) && self.start_spare(size));
        if !started {
            let got = format!("a snapshot with a table of {lines} lines");
            return Err(Error::invalid("restore", got, "one of an engine with the same capacity and max_memory_bytes"));
        }
        if is_first {
            self.tables.retire(self.tables.common.latest(), true);
        }
        Ok(())
    }

    fn in_thread(&self) -> bool {
        self.in_thread.load(Ordering::Relaxed)
    }

    /// Returns the number of times that there was no memory for a table.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the bytes that all tables take, those included that are ready or being made ready,
    /// and those whose memory is on its way back.
    pub(crate) fn bytes(&self) -> usize {
        let reserved = self.reserved();
        let used = self.tables.roster().berths().chain(reserved);
        used.map(|berth| self.tables.table(berth).bytes()).sum::<usize>() + size_of_val(self)
    }

    /// Returns true if it is for the caller to look after the tables; then to `end` it.
    fn begin(&self) -> bool {
        // Acquire: partner of the release in `end`, which hands over what the last one has done.
        !self.busy.load(Ordering::Relaxed) && !self.busy.swap(true, Ordering::Acquire)
    }

    fn end(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Somebody has noticed that there may be something to do.
    fn answer(self: &Arc<Self>) {
        if !self.begin() {
            return self.help_or_wait();
        }
        self.take_over();
        let survey = self.survey(SURVEY_LINES);
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
        let expired = self.tables.has_expired(self.tables.common.latest());
        if wanted.is_none() && !expired && !self.has_needless_spare(&survey) {
            self.set_bell(if survey.may_become_rush() { Again::Soon } else { Again::Later });
            return self.end();
        }
        if !self.in_thread() || !self.in_background(Self::look_after) {
            // Without a thread: better late than never.
            self.look_after();
        }
    }

    /// Has a thread do something; false if there is none to be had.
    fn in_background(self: &Arc<Self>, work: impl Fn(&Arc<Self>) + Send + 'static) -> bool {
        let growth = Arc::clone(self);
        let thread = std::thread::Builder::new().name("hapax-window".into());
        thread.spawn(move || work(&growth)).is_ok()
    }

    /// Does all that there is to do. Ends being busy.
    fn look_after(self: &Arc<Self>) {
        if self.retire_expired() && !self.begin() {
            // Somebody else has found something to do meanwhile.
            return;
        }
        let survey = self.survey(THOROUGH_SURVEY_LINES);
        if self.has_needless_spare(&survey) {
            self.release_spare();
        }
        let wanted = survey.wants(&self.sizes, self.full);
        let refused = wanted.filter(|size| !self.start(*size));
        // (If callers are still helping with a part, the next one to notice starts the table.)
        if self.state().under_way.is_none() {
            let in_vain = refused.is_some_and(|size| size > survey.size);
            self.set_bell(if in_vain { Again::InVain } else { Again::Soon });
        }
        self.end();
    }

    /// Retires what has expired, and gives its memory back; that takes long, so others may look
    /// after the tables meanwhile. Whether there was any, so that the caller is not busy any more.
    fn retire_expired(&self) -> bool {
        let retire = || self.tables.retire(self.tables.common.latest(), false);
        let mut retired = Vec::new();
        while let Some(berth) = retire() {
            self.state().releasing.push(berth);
            retired.push(berth);
        }
        if retired.is_empty() {
            return false;
        }
        self.end();
        for berth in retired {
            self.tables.table(berth).release();
            self.state().releasing.retain(|releasing| *releasing != berth);
        }
        true
    }

    /// Ends, in a child, what a thread of the parent has not ended.
    fn take_over(&self) {
        let abandoned = {
            let mut state = self.state();
            match std::mem::take(&mut state.is_abandoned) {
                true => (state.under_way.take(), std::mem::take(&mut state.releasing)),
                false => return,
            }
        };
        let (under_way, releasing) = abandoned;
        let berths = under_way.map(|preparation| preparation.berth).into_iter().chain(releasing);
        berths.for_each(|berth| self.tables.table(berth).release());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that panics is done under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Nobody begins or ends anything. What takes longer than a moment may be under way.
#[cfg_attr(any(not(unix), modelled), allow(dead_code, reason = "there are no forks"))]
struct AtRest<'g> {
    growth: &'g Growth,
    state: MutexGuard<'g, State>,
}

impl Held for AtRest<'_> {
    fn in_child(&mut self) {
        // Whoever looked after the tables is not there any more.
        self.growth.busy.store(false, Ordering::Release);
        self.growth.tables.common.nobody_is_clearing();
        self.state.is_abandoned = self.state.under_way.is_some() || !self.state.releasing.is_empty();
    }
}

impl State {
    fn new() -> Self {
        State { spare: None, under_way: None, releasing: Vec::new(), is_abandoned: false }
    }

    fn is_ready(&self, size: usize) -> bool {
        self.spare.is_some_and(|(spare, _)| spare == size)
    }
}
