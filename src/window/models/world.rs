//! A run of a scenario on tables, as the window would do it.

use super::super::Chunk;
use super::judge::History;
use super::scenario::{Id, Op, Scenario};
use crate::Outcome;
use crate::digest::Digest;
use crate::sync::{Ordering, model};
use crate::window::bits::slot::Slot;
use crate::window::bits::tick::Tick;
use crate::window::look::view::View;
use crate::window::protocol::bucket_memory::{BucketMemory, Lost};
use crate::window::table_set::table::{Table, TableMemory};
use crate::window::table_set::tables::{self, OwnInsertion, Tables};
use std::sync::{Arc, Mutex, MutexGuard};

/// The ticks of a window. Entries are kept for 6, flags count for 8.
pub(crate) const WINDOW_TICKS: u64 = 4;

const SLOTS: usize = 2;
const VERSION_BITS: u32 = 3;

struct World {
    scenario: &'static Scenario,
    tables: Tables<SLOTS, VERSION_BITS>,
    /// The record of all calls. It is no part of the model: no thread waits for it, and it orders
    /// nothing.
    history: Mutex<History>,
}

/// Runs a scenario once. Panics if a caller got a wrong answer.
pub(crate) fn run(scenario: &'static Scenario) {
    let world = Arc::new(World::new(scenario));
    let known = world.call_all(scenario.first, 0);
    let thread = |ops: &&'static [Op]| {
        let (ops, world) = (*ops, world.clone());
        Box::new(move || {
            world.call_all(ops, known);
        }) as Box<dyn FnOnce() + Send>
    };
    model::run_at_once(scenario.threads.iter().map(thread).collect());
    world.judge_buckets();
}

impl World {
    fn new(scenario: &'static Scenario) -> Self {
        let world = World {
            scenario,
            tables: Tables::new(Table::new(scenario.buckets).unwrap(), WINDOW_TICKS),
            history: Mutex::new(History::new(WINDOW_TICKS, *scenario)),
        };
        if scenario.broken {
            world.tables.memory(0).bucket(0)[1].store(5, Ordering::Relaxed);
        }
        world
    }

    /// Makes calls, one after another. `known` are those that the caller knows to be over; returns
    /// them with those that it has made.
    fn call_all(&self, ops: &[Op], known: u64) -> u64 {
        ops.iter().fold(known, |known, op| known | self.call(*op, known))
    }

    /// Makes a call. Returns the calls that it has made, as a set.
    fn call(&self, op: Op, known: u64) -> u64 {
        if let Op::CheckBoth(first, second, now) = op {
            let calls = self.begin_both([first, second].map(|id| Op::Check(id, now)), known);
            let fresh = self.check_both([first, second], now);
            calls.into_iter().zip(fresh).for_each(|(call, fresh)| self.end(call, Some(fresh)));
            return calls.iter().fold(0, |set, call| set | 1 << call);
        }
        let call = self.history().begin(op, known);
        let answer = self.answer(op);
        self.end(call, answer);
        1 << call
    }

    fn answer(&self, op: Op) -> Option<bool> {
        let refresh = self.scenario.refresh;
        match op {
            Op::Check(id, now) => return Some(self.check(id, now) == Outcome::Fresh),
            Op::Look(id, now) => return Some(!self.tables.contains(digest(id), || self.agree(now))),
            Op::Forget(id, now) => drop(self.tables.forget(digest(id), refresh, || self.agree(now))),
            Op::ForgetAll(now) => self.tables.forget_all(refresh, || self.agree(now)),
            Op::Start(index, buckets) => {
                self.tables.prepare(index, buckets).unwrap();
                assert!(self.tables.start(index), "there is room for a table");
            }
            Op::Retire => {
                if let Some(index) = self.tables.retire(self.tables.shared.latest(), false) {
                    self.tables.table(index).release();
                }
            }
            Op::RetireEarly => self.retire_early(),
            Op::CheckBoth(..) => unreachable!("makes two calls"),
        }
        None
    }

    /// Begins a batch of two ids. Of two equal ids the first is checked first.
    fn begin_both(&self, ops: [Op; 2], known: u64) -> [usize; 2] {
        let first = self.history().begin(ops[0], known);
        [first, self.history().begin(ops[1], known | 1 << first)]
    }

    fn end(&self, call: usize, answer: Option<bool>) {
        let judgement = self.history().end(call, answer, self.tables.shared.counters.evicted_live());
        if let Err(wrong) = judgement {
            panic!("{wrong}");
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    /// Retires a table as `Growth::make_room` does.
    fn retire_early(&self) {
        let (tables, shared) = (&self.tables, &self.tables.shared);
        let (now, oldest) = (shared.latest(), tables.roster().oldest());
        let live = tables.table(oldest).live(&shared.moment(shared.close()), shared.window_ticks);
        assert!(tables.retire(now, true).is_some(), "there are two tables");
        tables.table(oldest).release();
        // A caller may have inserted an entry that we do not see.
        shared.counters.evicted_many(live.max(1), Lost { age_ticks: 0, now });
    }

    /// Checks an id as `Window::check_at` does.
    fn check(&self, id: Id, now: u64) -> Outcome {
        self.tables.check_as_window(digest(id), self.scenario.refresh, || self.agree(now))
    }

    /// Checks two ids as `Window::check_chunk` does.
    fn check_both(&self, ids: [Id; 2], now: u64) -> [bool; 2] {
        let (tables, refresh) = (&self.tables, self.scenario.refresh);
        let across = |id: Id, own| tables.check(digest(id), refresh, || self.agree(now), own) == Outcome::Fresh;
        let mut chunk = Chunk::new();
        let home = tables.roster();
        let newest = tables.memory(home.newest());
        chunk.clear(home);
        chunk.stage(&newest, ids.iter().map(|id| digest(*id)));
        let tick = self.agree(now);
        let roster = tables.roster();
        if !roster.is_single() || roster != home {
            return ids.map(|id| across(id, None));
        }
        let decided = chunk.check(&newest, chunk.all(), tick, refresh, &mut || ());
        let is_current = decided.overtaken.is_empty() && tables.is_current(roster);
        let is_current = is_current || (!decided.fresh.is_empty() && tables.is_current(roster));
        [0, 1].map(|i| match () {
            () if decided.overtaken.contains(i) => across(ids[i], None),
            () if decided.fresh.contains(i) => is_current || across(ids[i], Some(OwnInsertion { roster, tick })),
            () => false,
        })
    }

    fn agree(&self, now: u64) -> Tick {
        self.tables.shared.agree(Tick { now, stamp: now + self.scenario.ahead })
    }

    /// Checks at the end that every bucket is a ring, and that one was repaired if one was broken.
    fn judge_buckets(&self) {
        let version_mask = <TableMemory<'_, SLOTS, VERSION_BITS> as BucketMemory>::VERSION_MASK;
        let memories = self.tables.roster().indices().map(|index| self.tables.memory(index));
        for (memory, bucket) in memories.flat_map(|memory| (0..memory.buckets()).map(move |bucket| (memory, bucket))) {
            let slots: Vec<Slot> = (0..SLOTS).map(|slot| memory.load(bucket, slot)).collect();
            assert!(View::is_ring(&slots, version_mask), "bucket {bucket} is no ring: {slots:?}");
        }
        let repaired = self.tables.shared.counters.repaired_buckets() > 0;
        assert_eq!(repaired, self.scenario.broken, "a bucket was repaired");
    }
}

fn digest(id: Id) -> Digest {
    let (bucket, tag) = (id / 100, id % 100);
    let high = if tag >= 50 { 1 << 63 } else { 0 };
    Digest { place: bucket.reverse_bits(), mark: tag << 32 | high }
}
