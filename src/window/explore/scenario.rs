//! Scenarios: the operations that were done before, and those that callers do at the same time.

use super::monitor::{Act, Pending};
pub(crate) use crate::window::bits::tick::Tick;

/// An id, by a number that encodes its place: `1000 s + 100 v + 10 l + n` has bucket l as its home.
/// With two buckets, the other one is its alternate. With four, buckets 0 and 1 are each other's
/// alternates, and 2 and 3; for ids with v = 1, 0 and 3, and 1 and 2. Two ids have a tag in common
/// only if they have the same n, v and s, and s is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u16);

impl Id {
    pub(crate) fn bucket(self) -> usize {
        usize::from(self.0 / 10 % 10)
    }

    /// Returns the half of a digest that the tag is made of.
    pub(crate) fn mark(self) -> u64 {
        let bucket_matters = self.0 < 1000;
        let number = u64::from(if bucket_matters { self.0 % 100 } else { 100 + self.0 / 1000 * 10 + self.0 % 10 });
        // The numbers also differ in the bits that batches look at.
        u64::from(self.0 / 100 % 10) << 63 | number << 54 | number << 18
    }
}

/// An operation of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Check(Id, Tick),
    /// A check by a caller that has agreed on the tick before anything else was done, and stalled
    /// since.
    CheckLate(Id, Tick),
    /// Checks in one batch.
    Batch(Vec<Id>, Tick),
    Contains(Id, Tick),
    Forget(Id, Tick),
    ForgetAll(Tick),
    /// A use of a bucket, which is swept if it is due.
    Sweep(usize, Tick),
    /// The start of the table at an index as the newest one.
    Start(usize),
    /// The retirement of expired tables.
    Retire,
    /// The preparation of a retired table to be started again.
    Revive(usize),
}

pub(crate) fn at(now: u64) -> Tick {
    Tick { now, stamp: now }
}

pub(crate) fn check(id: u16, now: u64) -> Op {
    Op::Check(Id(id), at(now))
}

/// Returns a check at a time that is not on a tick's edge: entries are stamped a tick later.
pub(crate) fn check_within(id: u16, now: u64) -> Op {
    Op::Check(Id(id), Tick { now, stamp: now + 1 })
}

pub(crate) fn check_late(id: u16, now: u64) -> Op {
    Op::CheckLate(Id(id), at(now))
}

pub(crate) fn batch(ids: &[u16], now: u64) -> Op {
    Op::Batch(ids.iter().copied().map(Id).collect(), at(now))
}

pub(crate) fn contains(id: u16, now: u64) -> Op {
    Op::Contains(Id(id), at(now))
}

pub(crate) fn forget(id: u16, now: u64) -> Op {
    Op::Forget(Id(id), at(now))
}

pub(crate) fn forget_all(now: u64) -> Op {
    Op::ForgetAll(at(now))
}

pub(crate) fn sweep(bucket: usize, now: u64) -> Op {
    Op::Sweep(bucket, at(now))
}

impl Op {
    /// Returns the ids that the answer is about, in order.
    pub(crate) fn ids(&self) -> &[Id] {
        match self {
            Op::Check(id, _) | Op::CheckLate(id, _) | Op::Contains(id, _) | Op::Forget(id, _) => {
                std::slice::from_ref(id)
            }
            Op::Batch(ids, _) => ids,
            Op::ForgetAll(_) | Op::Sweep(..) | Op::Start(_) | Op::Retire | Op::Revive(_) => &[],
        }
    }

    pub(crate) fn tick(&self) -> Tick {
        match self {
            Op::Check(_, tick) | Op::CheckLate(_, tick) | Op::Contains(_, tick) | Op::Forget(_, tick) => *tick,
            Op::Batch(_, tick) | Op::ForgetAll(tick) | Op::Sweep(_, tick) => *tick,
            Op::Start(_) | Op::Retire | Op::Revive(_) => at(0),
        }
    }

    /// Returns the operation's effects on one id, at the tick that it has agreed on. Its bits are
    /// `shift` up.
    pub(crate) fn on(
        &self,
        id: Id,
        tick: Tick,
        refresh: bool,
        again: bool,
        lenient: bool,
        shift: usize,
    ) -> Vec<Pending> {
        let act = match self {
            Op::Check(..) | Op::CheckLate(..) | Op::Batch(..) => Act::Check { tick, refresh, again, lenient },
            Op::Contains(..) => Act::Contains { tick },
            Op::Forget(..) | Op::ForgetAll(_) => Act::Forget,
            Op::Sweep(..) | Op::Start(_) | Op::Retire | Op::Revive(_) => return Vec::new(),
        };
        let all = [id];
        let ids = if matches!(self, Op::ForgetAll(_)) { &all } else { self.ids() };
        let mut after = 0;
        let mine = ids.iter().enumerate().filter(|(_, other)| **other == id);
        mine.map(|(i, _)| {
            let bit = 1 << (i + shift);
            let pending = Pending { bit, after, act };
            after |= bit;
            pending
        })
        .collect()
    }
}

/// A scenario: callers on buckets of a few slots.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) slots: usize,
    pub(crate) version_bits: u32,
    /// The number of the first table's buckets.
    pub(crate) buckets: usize,
    /// The numbers of buckets of other tables that may be started: those at indices 1, 2, ….
    pub(crate) spares: Vec<usize>,
    pub(crate) refresh: bool,
    /// True if looks read the slots backward.
    pub(crate) backward: bool,
    /// True if checks try the short way of `batch` first.
    pub(crate) short_way: bool,
    /// True if buckets may have to be repaired.
    pub(crate) breaks: bool,
    /// True if there are too many states to visit all of them: then it says how many it has.
    pub(crate) large: bool,
    /// True if it is allowed what takes two insertions of an id into one table, with a forgetting
    /// between them, all while the next table is started: the first of both callers may be told
    /// that the second one is handling it, though others were told before that the first one is.
    pub(crate) lenient: bool,
    /// The operations that are done before, by one caller.
    pub(crate) before: Vec<Op>,
    /// The operations that are done at the same time, each list by a caller of its own.
    pub(crate) callers: Vec<Vec<Op>>,
    /// The time when all callers are done; it is then checked which ids are there.
    pub(crate) end: u64,
}

pub(crate) const WINDOW_TICKS: u64 = 100;

impl Scenario {
    /// Returns a scenario on two buckets of two slots.
    pub(crate) fn new(before: Vec<Op>, callers: Vec<Vec<Op>>) -> Self {
        let ops = before.iter().chain(callers.iter().flatten());
        let end = ops.map(|op| op.tick().now).max().unwrap_or(0);
        Scenario {
            slots: 2,
            version_bits: 3,
            buckets: 2,
            spares: Vec::new(),
            refresh: false,
            backward: false,
            short_way: false,
            breaks: false,
            large: false,
            lenient: false,
            before,
            callers,
            end,
        }
    }

    pub(crate) fn buckets(self, buckets: usize) -> Self {
        Scenario { buckets, ..self }
    }

    pub(crate) fn spares(self, spares: &[usize]) -> Self {
        Scenario { spares: spares.to_vec(), ..self }
    }

    /// Uses eight slots, and all of the window's code.
    pub(crate) fn whole(self) -> Self {
        Scenario { slots: 8, version_bits: 6, ..self }
    }

    pub(crate) fn slots(self, slots: usize) -> Self {
        Scenario { slots, ..self }
    }

    pub(crate) fn version_bits(self, version_bits: u32) -> Self {
        Scenario { version_bits, ..self }
    }

    /// Visits some of the states.
    pub(crate) fn large(self) -> Self {
        Scenario { large: true, ..self }
    }

    /// Allows that buckets have to be repaired.
    pub(crate) fn breaks(self) -> Self {
        Scenario { breaks: true, ..self }
    }

    /// Returns all ids in the scenario.
    pub(crate) fn ids(&self) -> Vec<Id> {
        let ops = self.before.iter().chain(self.callers.iter().flatten());
        let mut ids: Vec<Id> = ops.flat_map(Op::ids).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Defines a test for each scenario, under its name; `ALL` has all of them, for mutants.
macro_rules! scenarios {
    ($($(#[$meta:meta])* $name:ident: [$($variant:ident),*] $scenario:expr;)*) => {
        pub(super) const ALL: &[(&str, fn() -> Vec<Scenario>)] = &[$((stringify!($name), || {
            $crate::window::explore::scenario::variants($scenario, &[$(stringify!($variant)),*])
        })),*];

        $($(#[$meta])*
        #[test]
        fn $name() {
            let (_, variants) = ALL.iter().find(|(name, _)| *name == stringify!($name)).expect("it is there");
            variants().iter().for_each(|scenario| $crate::window::explore::run::holds(stringify!($name), scenario));
        })*
    };
}
pub(super) use scenarios;

/// Returns variants of a scenario, with looks forward and backward, in some of these ways: checks
/// by the long way; by the short way first; by the long way, refreshing; by the short way first,
/// refreshing.
pub(super) fn variants(scenario: Scenario, ways: &[&str]) -> Vec<Scenario> {
    let mut variants = Vec::new();
    for way in ways {
        let (refresh, short_way) = match *way {
            "long" => (false, false),
            "short" => (false, true),
            "refresh" => (true, false),
            "short_refresh" => (true, true),
            _ => panic!("no way: {way}"),
        };
        for backward in [false, true] {
            variants.push(Scenario { refresh, short_way, backward, ..scenario.clone() });
        }
    }
    variants
}
