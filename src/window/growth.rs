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

use super::common::Bell;
use super::line::Lost;
use super::preparation::{Part, Preparation};
use super::roster::{BERTHS, Roster};
use super::sizes::Sizes;
use super::survey::{DISPLACED_IN_A_RUSH, Full, RECENTLY, RUSH, Survey};
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
}

/// The outcome of beginning to make a table ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reserved {
    Yes,
    NoRoom,
    NoMemory,
}

/// When to look at the newest table again.
#[derive(Clone, Copy)]
enum Again {
    /// Early enough for the next one to be ready in time if there is a rush.
    Soon,
    /// As ids come, there will be none before that.
    Later,
    /// A survey that has asked for a table in vain is not repeated before something has changed.
    InVain,
}

/// In a survey of these many lines, the load of a table that is rated right is found too high once in 3,000 times …
const SURVEY_LINES: usize = 1024;
/// … and in one of these, which comes before anything is done about it, never.
const THOROUGH_SURVEY_LINES: usize = 16 * SURVEY_LINES;

/// For so long a caller waits at most before it goes on with a table that is overfull.
const PATIENCE: Duration = Duration::from_millis(10);

/// Tables of no more parts than this are made ready by the caller that needs them in a rush: a
/// thread would come too late.
const SMALL_PARTS: usize = 1;

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
        growth
    }

    /// Whether memory is made ready by a thread, from now on.
    #[cfg(feature = "journal")]
    pub(crate) fn grow_in_thread(&self, in_thread: bool) {
        self.in_thread.store(in_thread, Ordering::Relaxed);
    }

    /// While this is off, nobody notices that a table is full or has expired.
    #[cfg(feature = "journal")]
    pub(crate) fn look_after_tables(&self, on: bool) {
        // Release: partner of the acquire in `begin`.
        self.busy.store(!on, Ordering::Release);
        self.set_bell(Again::Soon);
    }

    /// Starts a table of so many lines; the first takes the place of the one that there is. Only before anybody else knows the window.
    #[cfg(feature = "journal")]
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

    /// Berths that are in use, though no roster names them.
    fn reserved(&self) -> Vec<usize> {
        let state = self.state();
        let spare = state.spare.map(|(_, berth)| berth);
        let under_way = state.under_way.as_ref().map(|preparation| preparation.berth);
        state.releasing.iter().copied().chain(spare).chain(under_way).collect()
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

    /// In a rush, does what must not wait for a thread: starts a table that is ready or soon made
    /// ready, and has a large one made ready. False if there is no room, and others would have to
    /// go first.
    fn hurry(self: &Arc<Self>, size: usize) -> bool {
        if !self.state().is_ready(size) {
            match self.reserve(size) {
                Reserved::NoRoom => return false,
                Reserved::NoMemory => {
                    self.set_bell(Again::InVain);
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
                // Whoever helps with the last part will see to it.
                return true;
            }
        }
        let started = self.start_spare(size);
        self.set_bell(if started { Again::Soon } else { Again::InVain });
        true
    }

    fn is_small(&self, size: usize) -> bool {
        self.sizes.lines(size) * LINE_BYTES <= SMALL_PARTS * crate::memory::PART_BYTES
    }

    /// Makes a part of the next table ready, if one is under way; whether there may be more to do.
    fn help(self: &Arc<Self>) -> bool {
        let Some(preparation) = self.state().under_way.clone() else {
            return false;
        };
        match preparation.help(&self.tables) {
            Part::Done => true,
            Part::NoneLeft => false,
            Part::Last { ready } => {
                self.finish(&preparation, ready);
                if ready {
                    // It may be wanted at once.
                    self.answer();
                }
                false
            }
        }
    }

    /// Makes a part of the next table ready. If others have begun the last one, or are just about
    /// to start a table, and the newest would lose ids: waits for them, some microseconds, unless
    /// the system has something else run instead of that thread.
    fn help_or_wait(self: &Arc<Self>) {
        if self.help() || !self.tables.common.bell.is_urgent() {
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
    }

    fn help_with_all(self: &Arc<Self>) {
        while self.help() {}
    }

    /// All parts of a table are done.
    fn finish(&self, preparation: &Preparation, ready: bool) {
        let Preparation { size, berth, .. } = *preparation;
        if !ready {
            self.tables.table(berth).release();
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.set_bell(Again::InVain);
        }
        let mut state = self.state();
        state.under_way = None;
        state.spare = ready.then_some((size, berth)).or(state.spare);
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

    /// Returns true if a table was made ready for a rush that is over.
    fn has_needless_spare(&self, survey: &Survey) -> bool {
        survey.age >= 1.0 && !survey.is_rush() && self.state().spare.is_some()
    }

    fn release_spare(&self) {
        let spare = self.state().spare.take();
        spare.into_iter().for_each(|(_, berth)| self.tables.table(berth).release());
    }

    /// Looks at some of the newest table's lines.
    fn survey(&self, lines: usize) -> Survey {
        let newest = self.tables.roster().newest();
        let (now, window_ticks) = (self.tables.common.latest(), self.tables.common.window_ticks);
        let recently = (window_ticks as f64 * RECENTLY) as u64;
        let table = self.tables.table(newest);
        let just_now = (window_ticks as f64 * RUSH) as u64;
        let (mut slots, mut live, mut recent, mut rushed) = (0, 0, 0, 0);
        table.sample(lines, now, |age_ticks| {
            slots += 1;
            live += u64::from(age_ticks.is_some_and(|age| age < window_ticks));
            recent += u64::from(age_ticks.is_some_and(|age| age < recently));
            rushed += u64::from(age_ticks.is_some_and(|age| age < just_now));
        });
        let started = self.tables.times(newest).started;
        Survey {
            size: size_of_berth(newest),
            load: live as f64 / slots as f64,
            recent: recent as f64 / slots as f64,
            rushed: rushed as f64 / slots as f64,
            age: now.saturating_sub(started) as f64 / window_ticks as f64,
        }
    }

    /// Starts a table of a size, whatever must be done for that; false if it is not possible.
    fn start(self: &Arc<Self>, size: usize) -> bool {
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
    fn start_spare(&self, size: usize) -> bool {
        let mut state = self.state();
        let ready = state.spare.filter(|(spare, _)| *spare == size);
        if !ready.is_some_and(|(_, berth)| self.tables.start(berth)) {
            return false;
        }
        state.spare = None;
        true
    }

    /// Makes a table of a size ready, together with whoever helps; false if there is no memory for
    /// it, or not all of it is ready.
    fn prepare(self: &Arc<Self>, size: usize) -> bool {
        if self.state().under_way.is_none() && self.reserve(size) != Reserved::Yes {
            return false;
        }
        self.help_with_all();
        self.state().is_ready(size)
    }

    /// Begins to make a table of a size ready, if there is room for it.
    fn reserve(&self, size: usize) -> Reserved {
        let reserved = self.reserved();
        let is_free =
            |berth: &usize| self.tables.roster().berths().chain(reserved.iter().copied()).all(|used| used != *berth);
        let Some(berth) = berths_of(size).find(is_free).filter(|_| self.has_room(size)) else {
            return Reserved::NoRoom;
        };
        let Ok(life) = self.tables.reserve(berth, self.sizes.lines(size)) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Reserved::NoMemory;
        };
        self.state().under_way = Some(Arc::new(Preparation::new(&self.tables, berth, size, life)));
        Reserved::Yes
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
        // What is on its way back makes room without that.
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

    /// If a rush is about to fill the newest table, begins to make the next one ready, if there is
    /// room for both. Whether it has.
    fn prepare_ahead(&self, survey: &Survey) -> bool {
        let size = survey.size + 1;
        let is_ahead = self.in_thread() && survey.is_rush_ahead() && size < self.sizes.len() && !self.is_small(size);
        let is_free = {
            let state = self.state();
            state.spare.is_none() && state.under_way.is_none()
        };
        is_ahead && is_free && self.reserve(size) == Reserved::Yes
    }

    /// Says when to look again.
    fn set_bell(&self, again: Again) {
        let roster = self.tables.roster();
        let (newest, now) = (roster.newest(), self.tables.common.latest());
        let size = size_of_berth(newest);
        let lines = self.tables.table(newest).lines();
        let sample = Bell::sample(lines);
        let sampled = |displaced_a_line: f64| (((lines / sample) as f64 * displaced_a_line) as u64).max(1);
        let displaced_max = match again {
            _ if size + 1 == self.sizes.len() => u64::MAX,
            Again::Soon => sampled(DISPLACED_IN_A_RUSH),
            Again::Later => sampled(self.full.displaced_a_line),
            Again::InVain => lines as u64,
        };
        let expires = (!roster.is_single()).then(|| self.tables.expires(roster.oldest()));
        // Often enough for memory to be back before two windows are over.
        let (window_ticks, started) = (self.tables.common.window_ticks, self.tables.times(newest).started);
        let recently = (window_ticks as f64 * RECENTLY).ceil() as u64;
        let may_shrink = (size > 0 || self.state().spare.is_some())
            .then(|| started.saturating_add(recently).max(now.saturating_add(window_ticks / 16)));
        let due = expires.into_iter().chain(may_shrink).min().unwrap_or(u64::MAX);
        self.tables.common.bell.set(sample, displaced_max, due.max(now + 1));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing that panics is done under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new() -> Self {
        State { spare: None, under_way: None, releasing: Vec::new() }
    }

    fn is_ready(&self, size: usize) -> bool {
        self.spare.is_some_and(|(spare, _)| spare == size)
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
