//! The protocol of a line: look, decide, compare-and-swap. The proof is in ARCHITECTURE.md, "The
//! window's protocol".
//!
//! It is written over [`LineMemory`], so that models explore the code that runs in production.
//!
//! | slot | becomes | by | if |
//! |------|---------|----|----|
//! | head of the ring | an entry, lap + 1 | [`push`] | the slot is what the view showed |
//! | any | the same, later tick | [`check`] with refresh | it holds the id, live |
//! | any | vacant, same lap | forget | it holds the id |
//! | any | empty, same lap | sweep | it is long expired |
//! | any but 0 | the same, lap of slot 0 | [`repair`] | two looks show one and the same broken ring |

use super::slot::{Key, SLOTS, Slot, Tag};
use super::tick::{Moment, Tick};
use super::view::{Ring, View};
use crate::Outcome;
use crate::rules::{Rule, obeys};
use crate::sync::spin_loop;

/// The memory that the protocol runs on.
pub(crate) trait LineMemory: Sized {
    /// The number of slots in a line.
    const SLOTS: usize;
    /// The bits of a lap.
    const LAP_MASK: u64;

    /// Returns the number of lines, which is even.
    fn lines(&self) -> usize;
    /// Looks at a line. Acquire: writes that were made before the slots that it shows are visible
    /// afterwards.
    fn view(&self, line: usize, key: Key, moment: &Moment) -> View;
    /// Loads one slot, Acquire.
    fn load(&self, line: usize, slot: usize) -> Slot;
    /// Replaces a slot by a compare-and-swap, Release on success. `lost` is an entry that goes for
    /// good with it, and is then counted.
    fn replace(&self, line: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool;
    /// Asks for a line that will be needed soon.
    fn prefetch(&self, line: usize);
    /// Returns true if the line's shard was swept recently enough for its ticks to be unambiguous.
    fn is_ready(&self, line: usize, moment: &Moment) -> bool;
    /// Sweeps the line's shard if it is not ready.
    fn ready(&self, line: usize, moment: &Moment);
    /// Returns true if others' time is ahead of the moment by more than the protocol allows.
    fn overtaken(&self, moment: &Moment) -> bool;
    /// Counts a broken line that was repaired.
    fn repaired(&self);
    /// Returns true if a caller is forgetting everything.
    fn is_clearing(&self) -> bool;
    /// Notes that an entry that must be kept stood where another was inserted: a sign that the
    /// table is full.
    fn displaced(&self, line: usize);

    /// Returns the moment of a tick, to which ages refer.
    fn moment(&self, tick: Tick) -> Moment;

    /// Runs [`check`], compiled for this memory.
    #[inline(never)]
    fn check_thoroughly(&self, id: Place, tick: Tick, refresh: bool) -> Result<Outcome, Overtaken> {
        check(self, id, &self.moment(tick), refresh, || Ok(Elsewhere::Unknown))
    }
}

/// The place of an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The id's home line.
    pub(crate) line: usize,
    pub(crate) tag: Tag,
}

/// An entry that was displaced although it may be live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The time for which it was remembered.
    pub(crate) age_ticks: u64,
    /// The time when it was displaced.
    pub(crate) now: u64,
}

impl Lost {
    pub(crate) fn now(entry: Slot, moment: &Moment) -> Self {
        Lost { age_ticks: moment.age_ticks(entry.0), now: moment.tick.now }
    }
}

/// The caller's moment is too far behind the others': it must read the time again and start over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overtaken;

/// The decision on an id that is not in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// The id is fresh: insert it.
    Unknown,
    /// The id is a duplicate, and to be remembered here from now on: insert it.
    Known,
    /// The id has been decided: insert nothing.
    Settled(Outcome),
}

/// The result of an attempt to insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushed {
    Done,
    /// The line has changed since the view.
    Stale,
    Overtaken,
}

/// Checks whether the id was seen within the window; if not, it has been from now on.
///
/// Of any number of callers with one id exactly one is told `Fresh`: an insertion is decided on a
/// view that shows every entry of the line, and succeeds only if nothing was inserted since.
///
/// If the id is not here, `elsewhere` is asked: after the look that the insertion is decided on, so
/// that a caller that forgets the id there and then inserts anything here makes the insertion fail.
#[inline(always)]
pub(crate) fn check<M: LineMemory>(
    memory: &M,
    id: Place,
    moment: &Moment,
    refresh: bool,
    elsewhere: impl Fn() -> Result<Elsewhere, Overtaken>,
) -> Result<Outcome, Overtaken> {
    let mut patience = Patience::new();
    memory.ready(id.line, moment);
    loop {
        let away_before = !obeys(Rule::HomeFirst) && is_away(memory, id, moment);
        let view = memory.view(id.line, id.tag.at_home(), moment);
        if view.hit {
            if !refresh || refresh_at_home(memory, id, moment) {
                return Ok(Outcome::Duplicate);
            }
            continue;
        }
        let mut outcome = Outcome::Fresh;
        // The home line first, then the alternate, never the other way round: an entry is written
        // there before it is overwritten here, so a caller that misses it here finds it there.
        if view.spilled {
            let found = if obeys(Rule::HomeFirst) { is_away(memory, id, moment) } else { away_before };
            if found {
                if !refresh || is_current_away(memory, id, moment) {
                    return Ok(Outcome::Duplicate);
                }
                // The id is known, and to be remembered from now on: a new entry at home does that.
                // But not while everything is being forgotten: the entry would be left behind. And
                // not if the id has just been forgotten in this way.
                if memory.is_clearing() && obeys(Rule::RestWhileCleared) {
                    return Ok(Outcome::Duplicate);
                }
                if !is_away(memory, id, moment) && obeys(Rule::RestWhileCleared) {
                    continue;
                }
                outcome = Outcome::Duplicate;
            }
        }
        if !view.valid && obeys(Rule::ValidView) {
            patience.invalid_view(memory, id.line);
            continue;
        }
        if outcome == Outcome::Fresh {
            match elsewhere()? {
                Elsewhere::Unknown => (),
                Elsewhere::Known => outcome = Outcome::Duplicate,
                Elsewhere::Settled(outcome) => return Ok(outcome),
            }
        }
        match push(memory, id.line, view.ring, Slot::accepted(id.tag, moment), moment, &Chain::none()) {
            Pushed::Done => return Ok(outcome),
            Pushed::Stale => continue,
            Pushed::Overtaken => return Err(Overtaken),
        }
    }
}

/// Returns true if the id was seen within the window. A "no" counts only for a caller that is not
/// overtaken afterwards.
#[inline(always)]
pub(crate) fn contains<M: LineMemory>(memory: &M, id: Place, moment: &Moment) -> bool {
    memory.ready(id.line, moment);
    loop {
        let view = memory.view(id.line, id.tag.at_home(), moment);
        if view.hit || !view.spilled {
            return view.hit;
        }
        if is_away(memory, id, moment) {
            return true;
        }
        // With refresh, an entry that was away may have come home since, and the old copy may be
        // gone.
        let now = memory.view(id.line, id.tag.at_home(), moment);
        if now.ring == view.ring && !now.hit {
            return false;
        }
    }
}

/// Returns true if the id is in its alternate line.
fn is_away<M: LineMemory>(memory: &M, id: Place, moment: &Moment) -> bool {
    let alternate = id.tag.alternate(id.line, memory.lines());
    memory.ready(alternate, moment);
    memory.view(alternate, id.tag.away(), moment).hit
}

/// Returns true if the id is in its alternate line with a tick that is not before now.
fn is_current_away<M: LineMemory>(memory: &M, id: Place, moment: &Moment) -> bool {
    let alternate = id.tag.alternate(id.line, memory.lines());
    let is_current = |entry: Slot| entry.matches(id.tag.away()) && !is_older(entry, moment);
    (0..M::SLOTS).any(|slot| is_current(memory.load(alternate, slot)))
}

/// Moves the tick of an id's entry at home to now; returns false if the entry is not there any
/// more.
fn refresh_at_home<M: LineMemory>(memory: &M, id: Place, moment: &Moment) -> bool {
    for slot in 0..M::SLOTS {
        let entry = memory.load(id.line, slot);
        if entry.matches(id.tag.at_home()) && moment.is_live(entry.0) {
            // Only ever to a later tick: a caller whose clock is behind must not shorten a stay
            // that another has lengthened.
            let is_current = !is_older(entry, moment) && obeys(Rule::RefreshLater);
            return is_current || memory.replace(id.line, slot, entry, entry.refreshed(moment), None);
        }
    }
    false
}

/// Returns true if the entry's tick is before now.
fn is_older(entry: Slot, moment: &Moment) -> bool {
    moment.age(entry.0) > moment.age(moment.stamp_bits())
}

/// Inserts an entry at the head of a line's ring, if the line still is as the view showed it. If an
/// entry that must be kept stood there, that moves to its alternate line first.
fn push<M: LineMemory>(memory: &M, line: usize, ring: Ring, entry: Slot, moment: &Moment, chain: &Chain) -> Pushed {
    let ring = if obeys(Rule::Ring) { ring } else { first_free(memory, line, ring, moment) };
    let victim = memory.load(line, ring.head);
    if ring.lap.wrapping_sub(victim.lap(M::LAP_MASK)) & M::LAP_MASK != 1 && obeys(Rule::VictimLap) {
        return Pushed::Stale;
    }
    let mut spilled = victim.carries(moment) && obeys(Rule::InheritFlag);
    let mut moved_late = None;
    let mut lost = None;
    if victim.keep(moment) {
        memory.displaced(line);
        // An entry moves once. (`tag` is there: an entry that is kept is not vacant.)
        let home_tag = victim.tag().filter(|_| !victim.is_away());
        match home_tag.and_then(|tag| Some((tag, chain.extend(memory, line, tag)?))) {
            Some((tag, longer)) if obeys(Rule::Relocate) => {
                match obeys(Rule::RelocateFirst) {
                    true => relocate(memory, (victim, tag), (line, ring.head), moment, &longer),
                    false => moved_late = Some((tag, longer)),
                }
                spilled |= obeys(Rule::Flag);
            }
            Some(_) => (),
            None if !moment.is_live(victim.0) && !obeys(Rule::CountKept) => (),
            None => lost = Some(Lost::now(victim, moment)),
        }
    }
    if memory.overtaken(moment) && obeys(Rule::Overtaken) {
        return Pushed::Overtaken;
    }
    let entry = entry.inserted(spilled, ring.lap);
    if !memory.replace(line, ring.head, victim, entry, lost) {
        return Pushed::Stale;
    }
    if let Some((tag, longer)) = moved_late {
        relocate(memory, (victim, tag), (line, ring.head), moment, &longer);
    }
    Pushed::Done
}

/// Inserts as a protocol without a ring would: into the first slot that holds nothing live, if
/// there is one.
#[cold]
fn first_free<M: LineMemory>(memory: &M, line: usize, ring: Ring, moment: &Moment) -> Ring {
    let mut slots = (0..M::SLOTS).map(|slot| (slot, memory.load(line, slot)));
    let free = slots.find(|(_, entry)| !entry.keep(moment));
    free.map_or(ring, |(head, entry)| Ring { head, lap: (entry.lap(M::LAP_MASK) + 1) & M::LAP_MASK })
}

/// Copies an entry to its alternate line, before it is overwritten where it is. Returns when it is
/// there, or when its own slot has changed, so that the caller that wanted to overwrite it must
/// fail anyway.
fn relocate<M: LineMemory>(
    memory: &M,
    (entry, tag): (Slot, Tag),
    (from, slot): (usize, usize),
    moment: &Moment,
    chain: &Chain,
) {
    let to = chain.end();
    let moved = entry.moved_away();
    let not_older = moment.not_older_than(entry.0);
    let mut patience = Patience::new();
    memory.ready(to, moment);
    loop {
        let view = memory.view(to, tag.away(), &not_older);
        if view.hit {
            return;
        }
        if !view.valid {
            patience.invalid_view(memory, to);
            continue;
        }
        // After the view: if the entry is forgotten meanwhile, this finds its slot changed, or
        // forgetting finds the view outdated (see forget.rs).
        let is_there = memory.load(from, slot) == entry;
        if !is_there && obeys(Rule::SourceAgain) && obeys(Rule::RelocateFirst) {
            return;
        }
        match push(memory, to, view.ring, moved, moment, chain) {
            Pushed::Done | Pushed::Overtaken => return,
            Pushed::Stale => continue,
        }
    }
}

/// Inserts a vacancy: a caller that decided on an earlier view of this line will find it outdated.
pub(crate) fn push_vacancy<M: LineMemory>(memory: &M, line: usize, moment: &Moment) -> Result<(), Overtaken> {
    let mut patience = Patience::new();
    memory.ready(line, moment);
    loop {
        let view = memory.view(line, Key::NONE, moment);
        if !view.valid {
            patience.invalid_view(memory, line);
            continue;
        }
        match push(memory, line, view.ring, Slot::vacant(moment), moment, &Chain::none()) {
            Pushed::Done => return Ok(()),
            Pushed::Stale => continue,
            Pushed::Overtaken => return Err(Overtaken),
        }
    }
}

/// A chain of displacements: the lines that it has come through, each an entry's home, and where it
/// goes next.
struct Chain {
    lines: [usize; Self::LINES_MAX],
    len: usize,
}

impl Chain {
    /// The longest chain. At the rated load three in a hundred insertions displace an entry that
    /// must be kept. Six in a row: 1e-9.
    const LINES_MAX: usize = 6;

    fn none() -> Self {
        Chain { lines: [0; Self::LINES_MAX], len: 0 }
    }

    /// Returns the chain that goes on to the alternate line of an entry of `line`, unless it is
    /// long enough or has been there.
    fn extend<M: LineMemory>(&self, memory: &M, line: usize, tag: Tag) -> Option<Self> {
        let next = tag.alternate(line, memory.lines());
        let mut lines = self.lines;
        let mut len = self.len;
        if len == 0 {
            lines[0] = line;
            len = 1;
        }
        if len == Self::LINES_MAX || lines[..len].contains(&next) {
            return None;
        }
        lines[len] = next;
        Some(Chain { lines, len: len + 1 })
    }

    fn end(&self) -> usize {
        self.lines[self.len - 1]
    }
}

/// The bound of looks at a line whose ring is broken.
struct Patience(u32);

impl Patience {
    /// The most invalid views in a row. A view is invalid while others insert, so rarely twice in a
    /// row.
    const LOOKS_MAX: u32 = if cfg!(modelled) { 2 } else { 64 };

    fn new() -> Self {
        Patience(0)
    }

    fn invalid_view<M: LineMemory>(&mut self, memory: &M, line: usize) {
        self.0 += 1;
        if self.0.is_multiple_of(Self::LOOKS_MAX) && obeys(Rule::Repair) {
            repair(memory, line);
        } else {
            spin_loop();
        }
    }
}

/// Mends a line whose laps a stalled caller has broken after the lap wrapped: no view of it will
/// ever be valid, so no caller inserts, and the line stays as it is. Every slot gets the lap of
/// slot 0, which no repair changes, so that repairs at the same time agree.
#[cold]
fn repair<M: LineMemory>(memory: &M, line: usize) {
    let mut first = [Slot::default(); SLOTS];
    let slots = &mut first[..M::SLOTS];
    for (i, slot) in slots.iter_mut().enumerate() {
        *slot = memory.load(line, i);
    }
    // Two looks that show the same are one look at one moment: a slot that was written in between
    // has another lap.
    let changed = (0..M::SLOTS).any(|i| memory.load(line, i) != slots[i]);
    if changed || View::is_ring(slots, M::LAP_MASK) {
        return;
    }
    let lap = slots[0].lap(M::LAP_MASK);
    for (i, slot) in slots.iter().enumerate().skip(1) {
        if slot.lap(M::LAP_MASK) != lap {
            memory.replace(line, i, *slot, slot.with_lap(lap), None);
        }
    }
    memory.repaired();
}
