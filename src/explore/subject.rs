//! The window's code, as scenarios use it.

use super::machine;
use super::scenario::{Id, Op, Scenario, WINDOW_TICKS};
use crate::window::parts::{
    Chunk, LineMemory, Mine, Overtaken, Slot, Table, TableMemory, Tables, Tag, Tick, View, check_one, place,
};
use crate::{Digest, Outcome, Timestamp, Window};

/// The code under exploration.
pub(super) trait Subject {
    /// Does an operation; returns one bit for each id that was not known.
    fn run(&self, op: &Op) -> u16;

    /// Returns true if all lines are states of a ring.
    fn is_sound(&self) -> bool;

    /// Returns true if an entry is, or was, that of an id, given the first word of its line.
    fn is_of(&self, id: Id, first_word: usize, entry: Slot) -> bool;

    /// Returns the position of a word: table, line and slot.
    fn position(&self, word: usize) -> Option<(usize, usize, usize)>;
}

/// Returns the subject of a scenario, in new memory.
pub(super) fn subject(scenario: &Scenario) -> Box<dyn Subject> {
    machine(|machine| machine.words.clear());
    match (scenario.slots, scenario.lap_bits) {
        (2, 1) => Box::new(Small::<2, 1>::new(scenario)),
        (2, 2) => Box::new(Small::<2, 2>::new(scenario)),
        (2, 3) => Box::new(Small::<2, 3>::new(scenario)),
        (2, 4) => Box::new(Small::<2, 4>::new(scenario)),
        (3, 2) => Box::new(Small::<3, 2>::new(scenario)),
        (3, 3) => Box::new(Small::<3, 3>::new(scenario)),
        (8, 6) => Box::new(Whole::new(scenario)),
        shape => panic!("no lines of {shape:?} slots and lap bits are compiled"),
    }
}

/// Returns a digest that has the id's line as its home in a table of this many lines.
fn digest(id: Id, lines: usize) -> Digest {
    let place = ((id.line() as u128) << 64).div_ceil(lines as u128) as u64;
    Digest { place, mark: id.mark() }
}

/// Tables whose lines have few slots.
struct Small<const SLOTS: usize, const LAP_BITS: u32> {
    tables: Tables<SLOTS, LAP_BITS>,
    /// The number of tables that there may be, and (in `lines`) the lines of the first.
    berths: usize,
    lines: usize,
    refresh: bool,
    short_way: bool,
}

impl<const SLOTS: usize, const LAP_BITS: u32> Small<SLOTS, LAP_BITS> {
    fn new(scenario: &Scenario) -> Self {
        let &Scenario { lines, refresh, short_way, .. } = scenario;
        let first = Table::new(lines).expect("there is memory for a few lines");
        let tables = Tables::new(first, WINDOW_TICKS);
        prepare(&tables, scenario);
        Small { tables, berths: 1 + scenario.spares.len(), lines, refresh, short_way }
    }

    fn digest(&self, id: Id) -> Digest {
        digest(id, self.lines)
    }

    fn agree(&self, tick: Tick) -> Tick {
        self.tables.common.agree(tick)
    }

    /// Checks an id as [`Window::check`] does.
    fn check(&self, id: Id, tick: Tick) -> Outcome {
        let (tables, refresh, digest) = (&self.tables, self.refresh, self.digest(id));
        let mut mine = None;
        if self.short_way {
            let tick = self.agree(tick);
            let roster = tables.roster();
            let newest = tables.memory(roster.newest());
            if roster.is_single() {
                match check_one(&newest, place(&newest, digest), tick, refresh) {
                    Ok(outcome) if tables.is_current(roster) => return outcome,
                    Ok(Outcome::Fresh) => mine = Some(Mine { roster, tick }),
                    Ok(_) | Err(Overtaken) => (),
                }
            }
        }
        tables.check(digest, refresh, || self.agree(tick), mine)
    }

    /// Checks an id with a tick from before.
    fn check_late(&self, id: Id, tick: Tick) -> Outcome {
        let late = std::cell::Cell::new(true);
        let agree = || if late.replace(false) { tick } else { self.agree(tick) };
        self.tables.check(self.digest(id), self.refresh, agree, None)
    }

    /// Checks a batch in the one table that there is.
    fn check_batch(&self, ids: &[Id], tick: Tick) -> u16 {
        let roster = self.tables.roster();
        let memory = self.tables.memory(roster.newest());
        let mut chunk = Chunk::new();
        chunk.clear(roster);
        ids.iter().for_each(|id| chunk.stage(&memory, self.digest(*id)));
        let (mut fresh, mut todo) = (0, !0);
        while todo != 0 {
            let decided = chunk.check(&memory, todo, self.agree(tick), self.refresh, || ());
            fresh |= decided.fresh;
            todo = decided.overtaken;
        }
        fresh as u16
    }
}

impl<const SLOTS: usize, const LAP_BITS: u32> Subject for Small<SLOTS, LAP_BITS> {
    fn run(&self, op: &Op) -> u16 {
        let (tables, refresh) = (&self.tables, self.refresh);
        match op {
            Op::Check(id, tick) => return u16::from(self.check(*id, *tick) == Outcome::Fresh),
            Op::CheckLate(id, tick) => return u16::from(self.check_late(*id, *tick) == Outcome::Fresh),
            Op::Batch(ids, tick) => return self.check_batch(ids, *tick),
            Op::Contains(id, tick) => return u16::from(!tables.contains(self.digest(*id), || self.agree(*tick))),
            Op::Forget(id, tick) => drop(tables.forget(self.digest(*id), refresh, || self.agree(*tick))),
            Op::ForgetAll(tick) => tables.forget_all(refresh, || self.agree(*tick)),
            Op::Sweep(line, tick) => {
                let newest = tables.memory(tables.roster().newest());
                newest.ready(*line, &tables.common.moment(self.agree(*tick)));
            }
            Op::Start(_) | Op::Retire | Op::Revive(_) => look_after(tables, op),
        }
        0
    }

    fn is_sound(&self) -> bool {
        are_rings(&self.tables)
    }

    fn is_of(&self, id: Id, first_word: usize, entry: Slot) -> bool {
        is_of(&self.tables, self.berths, self.digest(id), first_word, entry)
    }

    fn position(&self, word: usize) -> Option<(usize, usize, usize)> {
        position(&self.tables, self.berths, word)
    }
}

/// A window, as its users have it, on few lines.
struct Whole {
    window: Window,
    berths: usize,
    lines: usize,
}

impl Whole {
    fn new(scenario: &Scenario) -> Self {
        let window = Window::explored(scenario.lines, scenario.refresh);
        prepare(window.explored_tables(), scenario);
        Whole { window, berths: 1 + scenario.spares.len(), lines: scenario.lines }
    }

    fn digest(&self, id: Id) -> Digest {
        digest(id, self.lines)
    }
}

impl Subject for Whole {
    fn run(&self, op: &Op) -> u16 {
        // A tick is a nanosecond.
        let at = |tick: &Tick| Timestamp::from_nanos(tick.now);
        let window = &self.window;
        match op {
            Op::Check(id, tick) => return u16::from(window.check(self.digest(*id), at(tick)) == Outcome::Fresh),
            Op::Batch(ids, tick) => {
                let digests: Vec<Digest> = ids.iter().map(|id| self.digest(*id)).collect();
                let mut outcomes = Vec::new();
                window.check_batch(&digests, at(tick), &mut outcomes);
                let fresh = outcomes.into_iter().map(|outcome| u16::from(outcome == Outcome::Fresh));
                return fresh.enumerate().fold(0, |all, (i, fresh)| all | fresh << i);
            }
            Op::Contains(id, tick) => {
                window.advance(at(tick).into());
                return u16::from(!window.contains(self.digest(*id), at(tick)));
            }
            Op::Forget(id, tick) => drop(window.forget(self.digest(*id), at(tick))),
            Op::ForgetAll(tick) => window.clear(at(tick)),
            Op::Start(_) | Op::Retire | Op::Revive(_) => look_after(window.explored_tables(), op),
            Op::CheckLate(..) | Op::Sweep(..) => panic!("a window's users cannot do that: {op:?}"),
        }
        0
    }

    fn is_sound(&self) -> bool {
        are_rings(self.window.explored_tables())
    }

    fn is_of(&self, id: Id, first_word: usize, entry: Slot) -> bool {
        is_of(self.window.explored_tables(), self.berths, self.digest(id), first_word, entry)
    }

    fn position(&self, word: usize) -> Option<(usize, usize, usize)> {
        position(self.window.explored_tables(), self.berths, word)
    }
}

/// Prepares the tables: the first one is in berth 0, those that may be started are in the berths
/// after it.
fn prepare<const SLOTS: usize, const LAP_BITS: u32>(tables: &Tables<SLOTS, LAP_BITS>, scenario: &Scenario) {
    for (i, lines) in scenario.spares.iter().enumerate() {
        tables.prepare(i + 1, *lines).expect("there is memory for a few lines");
    }
}

/// Does what a caller does that manages the tables.
fn look_after<const SLOTS: usize, const LAP_BITS: u32>(tables: &Tables<SLOTS, LAP_BITS>, op: &Op) {
    match op {
        Op::Start(berth) => drop(tables.start(*berth)),
        Op::Revive(berth) => {
            let lines = tables.table(*berth).lines();
            tables.prepare(*berth, lines).expect("it is there");
        }
        _ => {
            while let Some(berth) = tables.retire(tables.common.latest(), false) {
                tables.table(berth).release();
            }
        }
    }
}

fn are_rings<const SLOTS: usize, const LAP_BITS: u32>(tables: &Tables<SLOTS, LAP_BITS>) -> bool {
    tables.roster().berths().all(|berth| {
        let memory = tables.memory(berth);
        let slots = |line| -> [Slot; SLOTS] { std::array::from_fn(|slot| memory.load(line, slot)) };
        (0..memory.lines()).all(|line| View::is_ring(&slots(line), TableMemory::<SLOTS, LAP_BITS>::LAP_MASK))
    })
}

fn is_of<const SLOTS: usize, const LAP_BITS: u32>(
    tables: &Tables<SLOTS, LAP_BITS>,
    berths: usize,
    id: Digest,
    first_word: usize,
    entry: Slot,
) -> bool {
    let tag = Tag::of(id.mark);
    entry.tag() == Some(tag)
        && position(tables, berths, first_word).is_some_and(|(berth, line, _)| {
            let memory = tables.memory(berth);
            let home = if entry.is_away() { tag.alternate(line, memory.lines()) } else { line };
            place(&memory, id).line == home
        })
}

fn position<const SLOTS: usize, const LAP_BITS: u32>(
    tables: &Tables<SLOTS, LAP_BITS>,
    berths: usize,
    word: usize,
) -> Option<(usize, usize, usize)> {
    let lines = (0..berths).flat_map(|berth| {
        let memory = tables.memory(berth);
        (0..memory.lines()).map(move |line| (berth, line, memory.line(line)[0].word()))
    });
    let mut lines = lines.filter(|(_, _, first)| (*first..first + SLOTS).contains(&word));
    lines.next().map(|(berth, line, first)| (berth, line, word - first))
}
