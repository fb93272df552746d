//! The window's code, as scenarios use it.

use super::scenario::{Id, Op, Scenario, WINDOW_TICKS};
use crate::digest::Digest;
use crate::id_set::IdSet;
use crate::sync::explored::machine;
use crate::window::Window;
use crate::window::bits::division::Ticks;
use crate::window::bits::slot::{Slot, Tag};
use crate::window::bits::tick::Tick;
use crate::window::checks::batch::Chunk;
use crate::window::checks::kernel::Kernel;
use crate::window::growth::Growth;
use crate::window::look::view::View;
use crate::window::protocol::bucket_memory::BucketMemory;
use crate::window::table_set::table::{Table, TableMemory};
use crate::window::table_set::tables::{Tables, place};
use crate::{Outcome, Timestamp};
use std::time::Duration;

/// The code under exploration.
pub(super) trait Subject {
    /// Does an operation; returns one bit for each id that was not known.
    fn run(&self, op: &Op) -> u16;

    /// Returns true if all buckets are states of a ring.
    fn is_sound(&self) -> bool;

    /// Returns true if an entry is, or was, that of an id, given the first word of its bucket.
    fn is_of(&self, id: Id, first_word: usize, entry: Slot) -> bool;

    /// Returns the position of a word: table, bucket and slot.
    fn position(&self, word: usize) -> Option<(usize, usize, usize)>;
}

/// Returns the subject of a scenario, in new memory.
pub(super) fn subject(scenario: &Scenario) -> Box<dyn Subject> {
    machine(|machine| machine.words.clear());
    match (scenario.slots, scenario.version_bits) {
        (2, 1) => Box::new(Small::<2, 1>::new(scenario)),
        (2, 2) => Box::new(Small::<2, 2>::new(scenario)),
        (2, 3) => Box::new(Small::<2, 3>::new(scenario)),
        (2, 4) => Box::new(Small::<2, 4>::new(scenario)),
        (3, 2) => Box::new(Small::<3, 2>::new(scenario)),
        (3, 3) => Box::new(Small::<3, 3>::new(scenario)),
        (8, 6) => Box::new(Whole::new(scenario)),
        shape => panic!("no buckets of {shape:?} slots and version bits are compiled"),
    }
}

/// Returns a digest that has the id's bucket as its home in a table of this many buckets.
fn digest(id: Id, buckets: usize) -> Digest {
    let place = ((id.bucket() as u128) << 64).div_ceil(buckets as u128) as u64;
    Digest { place, mark: id.mark() }
}

/// Tables whose buckets have few slots.
struct Small<const SLOTS: usize, const VERSION_BITS: u32> {
    tables: Tables<SLOTS, VERSION_BITS>,
    /// The number of tables that there may be, and (in `buckets`) the buckets of the first.
    indices: usize,
    buckets: usize,
    refresh: bool,
    short_way: bool,
}

impl<const SLOTS: usize, const VERSION_BITS: u32> Small<SLOTS, VERSION_BITS> {
    fn new(scenario: &Scenario) -> Self {
        let &Scenario { buckets, refresh, short_way, .. } = scenario;
        let first = Table::new(buckets).expect("there is memory for a few buckets");
        let tables = Tables::new(first, WINDOW_TICKS);
        prepare(&tables, scenario);
        Small { tables, indices: 1 + scenario.spares.len(), buckets, refresh, short_way }
    }

    fn digest(&self, id: Id) -> Digest {
        digest(id, self.buckets)
    }

    fn agree(&self, tick: Tick) -> Tick {
        self.tables.shared.agree(tick)
    }

    /// Checks an id as [`Window::check`] does.
    fn check(&self, id: Id, tick: Tick) -> Outcome {
        let (tables, refresh, digest) = (&self.tables, self.refresh, self.digest(id));
        let agree = || self.agree(tick);
        if self.short_way {
            tables.check_as_window(digest, refresh, agree)
        } else {
            tables.check(digest, refresh, agree, None)
        }
    }

    /// Looks for an id, as the check of an id that may not be inserted does.
    fn contains(&self, id: Id, tick: Tick) -> bool {
        let (tables, digest) = (&self.tables, self.digest(id));
        let is_here = self.short_way && tables.is_here_shortly(digest, self.agree(tick));
        is_here || tables.contains(digest, || self.agree(tick))
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
        chunk.stage(&memory, ids.iter().map(|id| self.digest(*id)));
        let (mut fresh, mut todo) = (IdSet::EMPTY, chunk.all());
        while !todo.is_empty() {
            let decided = chunk.check(&memory, todo, self.agree(tick), self.refresh, &mut || ());
            fresh = fresh.union(decided.fresh);
            todo = decided.overtaken;
        }
        fresh.iter().fold(0, |all, i| all | 1 << i)
    }
}

impl<const SLOTS: usize, const VERSION_BITS: u32> Subject for Small<SLOTS, VERSION_BITS> {
    fn run(&self, op: &Op) -> u16 {
        let (tables, refresh) = (&self.tables, self.refresh);
        match op {
            Op::Check(id, tick) => return u16::from(self.check(*id, *tick) == Outcome::Fresh),
            Op::CheckLate(id, tick) => return u16::from(self.check_late(*id, *tick) == Outcome::Fresh),
            Op::Batch(ids, tick) => return self.check_batch(ids, *tick),
            Op::Contains(id, tick) => return u16::from(!self.contains(*id, *tick)),
            Op::Forget(id, tick) => drop(tables.forget(self.digest(*id), refresh, || self.agree(*tick))),
            Op::ForgetAll(tick) => tables.forget_all(refresh, || self.agree(*tick)),
            Op::Sweep(bucket, tick) => {
                let newest = tables.memory(tables.roster().newest());
                newest.ready(*bucket, &tables.shared.moment(self.agree(*tick)));
            }
            Op::Start(_) | Op::Retire | Op::Revive(_) => look_after(tables, op),
        }
        0
    }

    fn is_sound(&self) -> bool {
        are_rings(&self.tables)
    }

    fn is_of(&self, id: Id, first_word: usize, entry: Slot) -> bool {
        is_of(&self.tables, self.indices, self.digest(id), first_word, entry)
    }

    fn position(&self, word: usize) -> Option<(usize, usize, usize)> {
        position(&self.tables, self.indices, word)
    }
}

/// A window, as its users have it, on few buckets.
struct Whole {
    window: Window,
    indices: usize,
    buckets: usize,
}

impl Whole {
    fn new(scenario: &Scenario) -> Self {
        let window = window(scenario.buckets, scenario.refresh);
        prepare(window.tables(), scenario);
        Whole { window, indices: 1 + scenario.spares.len(), buckets: scenario.buckets }
    }

    fn digest(&self, id: Id) -> Digest {
        digest(id, self.buckets)
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
            Op::Start(_) | Op::Retire | Op::Revive(_) => look_after(window.tables(), op),
            Op::CheckLate(..) | Op::Sweep(..) => panic!("a window's users cannot do that: {op:?}"),
        }
        0
    }

    fn is_sound(&self) -> bool {
        are_rings(self.window.tables())
    }

    fn is_of(&self, id: Id, first_word: usize, entry: Slot) -> bool {
        is_of(self.window.tables(), self.indices, self.digest(id), first_word, entry)
    }

    fn position(&self, word: usize) -> Option<(usize, usize, usize)> {
        position(self.window.tables(), self.indices, word)
    }
}

/// Returns a window of 100 ticks of a nanosecond each, on a first table of this few buckets; it
/// grows only when it is told to.
fn window(buckets: usize, refresh_on_duplicate: bool) -> Window {
    let duration = Duration::from_nanos(100);
    let ticks = Ticks::of_window(duration).expect("100 ticks are a window");
    let first = Table::new(buckets).expect("there is memory for a few buckets");
    let growth = Growth::new(first, ticks.window, 0, false);
    Window { growth, ticks, duration, refresh_on_duplicate, kernel: Kernel::Portable }
}

/// Prepares the tables: the first one is at index 0, those that may be started are at the indices
/// after it.
fn prepare<const SLOTS: usize, const VERSION_BITS: u32>(tables: &Tables<SLOTS, VERSION_BITS>, scenario: &Scenario) {
    for (i, buckets) in scenario.spares.iter().enumerate() {
        tables.prepare(i + 1, *buckets).expect("there is memory for a few buckets");
    }
}

/// Does what a caller does that manages the tables.
fn look_after<const SLOTS: usize, const VERSION_BITS: u32>(tables: &Tables<SLOTS, VERSION_BITS>, op: &Op) {
    match op {
        Op::Start(index) => drop(tables.start(*index)),
        Op::Revive(index) => {
            let buckets = tables.table(*index).buckets();
            tables.prepare(*index, buckets).expect("it is there");
        }
        _ => {
            while let Some(index) = tables.retire(tables.shared.latest(), false) {
                tables.table(index).release();
            }
        }
    }
}

fn are_rings<const SLOTS: usize, const VERSION_BITS: u32>(tables: &Tables<SLOTS, VERSION_BITS>) -> bool {
    tables.roster().indices().all(|index| {
        let memory = tables.memory(index);
        let slots = |bucket| -> [Slot; SLOTS] { std::array::from_fn(|slot| memory.load(bucket, slot)) };
        (0..memory.buckets())
            .all(|bucket| View::is_ring(&slots(bucket), TableMemory::<SLOTS, VERSION_BITS>::VERSION_MASK))
    })
}

fn is_of<const SLOTS: usize, const VERSION_BITS: u32>(
    tables: &Tables<SLOTS, VERSION_BITS>,
    indices: usize,
    id: Digest,
    first_word: usize,
    entry: Slot,
) -> bool {
    let tag = Tag::of(id.mark);
    entry.tag() == Some(tag)
        && position(tables, indices, first_word).is_some_and(|(index, bucket, _)| {
            let memory = tables.memory(index);
            let home = if entry.is_away() { tag.alternate(bucket, memory.buckets()) } else { bucket };
            place(&memory, id).bucket == home
        })
}

fn position<const SLOTS: usize, const VERSION_BITS: u32>(
    tables: &Tables<SLOTS, VERSION_BITS>,
    indices: usize,
    word: usize,
) -> Option<(usize, usize, usize)> {
    let buckets = (0..indices).flat_map(|index| {
        let memory = tables.memory(index);
        (0..memory.buckets()).map(move |bucket| (index, bucket, memory.bucket(bucket)[0].word()))
    });
    let mut buckets = buckets.filter(|(_, _, first)| (*first..first + SLOTS).contains(&word));
    buckets.next().map(|(index, bucket, first)| (index, bucket, word - first))
}
