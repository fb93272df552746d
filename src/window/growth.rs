//! Looks after a window's tables: starts one when the newest is full or too large, retires those that have expired, and keeps all
//! of it within the budget.
//!
//! Callers notice that there may be something to do ([`Bell`](super::common::Bell)) and look at a sample of lines, which takes some
//! microseconds. What takes longer, asking the system for memory and giving it back, is done by a thread that lives as long as
//! that takes; callers go on with the tables that they have.

use super::common::Bell;
use super::line::Lost;
use super::roster::{BERTHS, Roster};
use super::sizes::Sizes;
use super::survey::{Full, RECENTLY, Survey};
use super::table::Table;
use super::tables::Tables;
#[cfg(feature = "journal")]
use crate::Error;
use crate::memory::LINE_BYTES;
use crate::sync::{Ordering, StdAtomicBool, StdAtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A window's tables, and what they may become.
pub(crate) struct Growth {
    pub(crate) tables: Tables,
    sizes: Sizes,
    budget_bytes: usize,
    /// Whether a thread does what takes long; else the caller that finds it due, early enough for nothing to be lost.
    in_thread: StdAtomicBool,
    full: Full,
    /// Whether somebody looks after the tables now.
    busy: StdAtomicBool,
    state: Mutex<State>,
    refused: StdAtomicU64,
}

/// For whoever looks after the tables.
struct State {
    /// A table that was prepared before it is needed.
    spare: Option<usize>,
    /// When the newest table was started.
    newest_since: Instant,
    /// What it takes to fill a table, if the last one was filled.
    filling: Option<Pace>,
    /// What it takes to prepare a table.
    preparing: Option<Pace>,
}

/// How long something took for so many lines.
#[derive(Clone, Copy)]
struct Pace {
    lines: usize,
    took: Duration,
}

impl Pace {
    fn estimate(self, lines: usize) -> Duration {
        self.took.mul_f64(lines as f64 / self.lines as f64)
    }
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
            state: Mutex::new(State { spare: None, newest_since: Instant::now(), filling: None, preparing: None }),
            refused: StdAtomicU64::new(0),
        });
        if growth.sizes.len() > 1 {
            let weak = Arc::downgrade(&growth);
            growth.tables.common.bell.connect(move || {
                weak.upgrade().into_iter().for_each(Growth::answer);
            });
        }
        growth.set_bell(None);
        growth
    }

    /// How often there was no memory for a table.
    /// Whether memory is made ready by a thread, from now on.
    #[cfg(feature = "journal")]
    pub(crate) fn grow_in_thread(&self, in_thread: bool) {
        self.in_thread.store(in_thread, Ordering::Relaxed);
    }

    /// While this is off, nobody notices that a table is full or has expired.
    #[cfg(feature = "journal")]
    pub(crate) fn look_after_tables(&self, on: bool) {
        // Release: partner of the acquire in `answer`.
        self.busy.store(!on, Ordering::Release);
        self.set_bell(None);
    }

    /// Starts a table of so many lines; the first takes the place of the one that there is. Only before anybody else knows the window.
    #[cfg(feature = "journal")]
    pub(crate) fn restore_table(&self, lines: usize, is_first: bool) -> Result<(), Error> {
        let sizes = 0..self.sizes.len();
        let size = sizes.into_iter().find(|&size| self.sizes.lines(size) == lines);
        if is_first && size == Some(0) {
            return Ok(());
        }
        let berth = size.and_then(|size| self.prepare(size));
        if !berth.is_some_and(|berth| self.tables.start(berth)) {
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

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// What all tables take, those that are prepared included.
    pub(crate) fn bytes(&self) -> usize {
        let spare = self.state().spare;
        let used = self.tables.roster().berths().chain(spare);
        used.map(|berth| self.tables.table(berth).bytes()).sum::<usize>() + size_of_val(self)
    }

    /// Somebody has noticed that there may be something to do.
    fn answer(self: Arc<Self>) {
        // Acquire: partner of the release below, which hands over what the last one has done.
        if self.busy.load(Ordering::Relaxed) || self.busy.swap(true, Ordering::Acquire) {
            return;
        }
        if !self.has_something_to_do() {
            self.set_bell(None);
            return self.busy.store(false, Ordering::Release);
        }
        let work = {
            let growth = Arc::clone(&self);
            move || {
                growth.look_after();
                growth.busy.store(false, Ordering::Release);
            }
        };
        if !self.in_thread() {
            return work();
        }
        let thread = std::thread::Builder::new().name("hapax-window".into());
        if let Err(_no_thread) = thread.spawn(work) {
            // Better late than never.
            self.look_after();
            self.busy.store(false, Ordering::Release);
        }
    }

    fn has_something_to_do(&self) -> bool {
        let now = self.tables.common.latest();
        let survey = self.survey(SURVEY_LINES);
        self.tables.has_expired(now)
            || survey.wants(&self.sizes, self.full).is_some()
            || self.has_needless_spare(&survey)
    }

    fn look_after(&self) {
        while let Some(berth) = self.tables.retire(self.tables.common.latest(), false) {
            self.tables.table(berth).release();
        }
        let survey = self.survey(THOROUGH_SURVEY_LINES);
        if self.has_needless_spare(&survey) {
            let spare = self.state().spare.take();
            spare.into_iter().for_each(|berth| self.tables.table(berth).release());
        }
        let refused = match survey.wants(&self.sizes, self.full) {
            Some(size) => !self.start(size),
            None => false,
        };
        self.set_bell(refused.then_some(survey));
        self.prepare_spare();
    }

    /// Whether a table was prepared for a rush that is over.
    fn has_needless_spare(&self, survey: &Survey) -> bool {
        survey.age >= 1.0 && self.state().spare.is_some()
    }

    /// Looks at some of the newest table's lines.
    fn survey(&self, lines: usize) -> Survey {
        let newest = self.tables.roster().newest();
        let (now, window_ticks) = (self.tables.common.latest(), self.tables.common.window_ticks);
        let recently = (window_ticks as f64 * RECENTLY) as u64;
        let table = self.tables.table(newest);
        let (mut slots, mut live, mut recent) = (0, 0, 0);
        table.sample(lines, now, |age_ticks| {
            slots += 1;
            live += u64::from(age_ticks.is_some_and(|age| age < window_ticks));
            recent += u64::from(age_ticks.is_some_and(|age| age < recently));
        });
        let started = self.tables.times(newest).started;
        Survey {
            size: size_of_berth(newest),
            load: live as f64 / slots as f64,
            recent: recent as f64 / slots as f64,
            age: now.saturating_sub(started) as f64 / window_ticks as f64,
        }
    }

    /// Starts a table of a size; whether that was possible.
    fn start(&self, size: usize) -> bool {
        let newest = self.tables.roster().newest();
        let spare = self.state().spare.take();
        let full_since = Instant::now();
        let berth = match spare {
            Some(berth) if size_of_berth(berth) == size => Some(berth),
            spare => {
                spare.into_iter().for_each(|berth| self.tables.table(berth).release());
                if size > size_of_berth(newest) {
                    self.make_room(size);
                }
                self.prepare(size)
            }
        };
        let started = berth.is_some_and(|berth| self.tables.start(berth));
        if started {
            let state = &mut *self.state();
            let took = full_since.saturating_duration_since(state.newest_since);
            state.filling =
                (size > size_of_berth(newest)).then(|| Pace { lines: self.tables.table(newest).lines(), took });
            state.newest_since = Instant::now();
        }
        started
    }

    /// Gets a table of a size ready, if there is memory for it.
    fn prepare(&self, size: usize) -> Option<usize> {
        let lines = self.sizes.lines(size);
        let roster = self.tables.roster();
        let is_free = |berth: &usize| roster.berths().all(|used| used != *berth);
        let berth = berths_of(size).find(is_free).filter(|_| self.has_room(size))?;
        let began = Instant::now();
        match self.tables.prepare(berth, lines) {
            Ok(()) => {
                self.state().preparing = Some(Pace { lines, took: began.elapsed() });
                Some(berth)
            }
            Err(_no_memory) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn has_room(&self, size: usize) -> bool {
        self.used_lines() + self.sizes.lines(size) <= self.budget_bytes / LINE_BYTES
    }

    fn used_lines(&self) -> usize {
        let spare = self.state().spare;
        self.tables.roster().berths().chain(spare).map(|berth| self.tables.table(berth).lines()).sum()
    }

    /// Retires the oldest tables before their time, if that makes room for a table of a size.
    fn make_room(&self, size: usize) {
        let common = &self.tables.common;
        let newest = self.tables.table(self.tables.roster().newest()).lines();
        let is_worth_it = newest + self.sizes.lines(size) <= self.budget_bytes / LINE_BYTES;
        let must_go = |tables: &Tables| {
            let berth_is_taken = berths_of(size).all(|berth| tables.roster().berths().any(|used| used == berth));
            !self.has_room(size) || berth_is_taken || tables.roster().len() == Roster::LEN_MAX
        };
        while is_worth_it && must_go(&self.tables) {
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

    /// In a rush, and if nobody has to wait for it, gets the next table ready while the newest fills, if there is room for both.
    fn prepare_spare(&self) {
        let size = size_of_berth(self.tables.roster().newest());
        let is_in_a_rush = self.in_thread()
            && size + 1 < self.sizes.len()
            && self.state().is_in_a_rush(self.sizes.lines(size), self.sizes.lines(size + 1));
        if is_in_a_rush && self.state().spare.is_none() {
            let spare = self.prepare(size + 1);
            self.state().spare = spare;
        }
    }

    /// When to look again. A survey that has asked for a table in vain is not repeated before something has changed.
    fn set_bell(&self, refused: Option<Survey>) {
        let roster = self.tables.roster();
        let (newest, now) = (roster.newest(), self.tables.common.latest());
        let size = size_of_berth(newest);
        let lines = self.tables.table(newest).lines();
        let sampled = (lines / Bell::LINES_A_SAMPLE) as f64 * self.full.displaced_a_line;
        let can_grow = size + 1 < self.sizes.len();
        let displaced_max = match refused {
            None if can_grow => (sampled as u64).max(self.full.displaced_min),
            Some(_) if can_grow => lines as u64,
            _ => u64::MAX,
        };
        let expires = (!roster.is_single()).then(|| self.tables.expires(roster.oldest()));
        // Often enough for memory to be back before two windows are over.
        let (window_ticks, started) = (self.tables.common.window_ticks, self.tables.times(newest).started);
        let recently = (window_ticks as f64 * RECENTLY).ceil() as u64;
        let may_shrink = (size > 0 || self.state().spare.is_some())
            .then(|| started.saturating_add(recently).max(now.saturating_add(window_ticks / 16)));
        let due = expires.into_iter().chain(may_shrink).min().unwrap_or(u64::MAX);
        self.tables.common.bell.set(displaced_max, due.max(now + 1));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing that panics is done under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the newest table, of so many lines, may be full before the next one, of so many, could be ready.
    fn is_in_a_rush(&self, lines: usize, next_lines: usize) -> bool {
        // What a machine has to get from its host takes it ten times as long as what it has.
        const MARGIN: u32 = 16;
        let paces = self.filling.zip(self.preparing);
        paces.is_some_and(|(filling, preparing)| filling.estimate(lines) < MARGIN * preparing.estimate(next_lines))
    }
}

/// Each size has two berths.
fn berths_of(size: usize) -> impl Iterator<Item = usize> + Clone {
    const EACH: usize = BERTHS / super::sizes::SIZES_MAX;
    size * EACH..(size + 1) * EACH
}

fn size_of_berth(berth: usize) -> usize {
    berth / (BERTHS / super::sizes::SIZES_MAX)
}
