//! The calls of a model, as data.

use crate::sync::model;

/// An id: a hundred times its home, and its tag. Homes 0 and 1 are buckets 0 and 1 of two buckets,
/// and 0 and 2 of four; 2 and 3 are buckets 1 and 3 of four. Of two buckets, each is the other's
/// alternate. Of four, buckets 0 and 1 are each other's, and 2 and 3; for tags from 50 on, 0 and 3
/// are, and 1 and 2.
pub(crate) type Id = u64;

/// A call. The last number is the caller's tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Check(Id, u64),
    /// Checks two ids in one batch.
    CheckBoth(Id, Id, u64),
    /// A look whether the id is there.
    Look(Id, u64),
    Forget(Id, u64),
    ForgetAll(u64),
    /// The start of a table of this many buckets at an index.
    Start(usize, usize),
    /// The retirement of the oldest table, if it has expired.
    Retire,
    /// The retirement of the oldest table as it is.
    RetireEarly,
}

impl Op {
    /// Returns the caller's tick; none for a caller that manages the tables.
    pub(crate) fn now(self) -> Option<u64> {
        match self {
            Op::Check(_, now) | Op::CheckBoth(_, _, now) | Op::Look(_, now) | Op::Forget(_, now) => Some(now),
            Op::ForgetAll(now) => Some(now),
            Op::Start(..) | Op::Retire | Op::RetireEarly => None,
        }
    }

    /// Returns the id that the answer is about.
    pub(crate) fn id(self) -> Option<Id> {
        match self {
            Op::Check(id, _) | Op::Look(id, _) | Op::Forget(id, _) => Some(id),
            Op::CheckBoth(..) | Op::ForgetAll(_) | Op::Start(..) | Op::Retire | Op::RetireEarly => None,
        }
    }

    pub(crate) fn concerns(self, id: Id) -> bool {
        self.id() == Some(id) || matches!(self, Op::ForgetAll(_))
    }
}

/// A scenario: first one thread calls, then several at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// The number of buckets of the first table: 2 or 4.
    pub(crate) buckets: usize,
    /// True if a duplicate extends its id's stay.
    pub(crate) refresh: bool,
    /// The number of ticks by which entries are stamped ahead of their caller's.
    pub(crate) ahead: u64,
    /// The number of preemptions up to which every execution is run.
    pub(crate) preemptions: u64,
    /// True if bucket 0 has a broken ring to begin with.
    pub(crate) broken: bool,
    pub(crate) first: &'static [Op],
    pub(crate) threads: &'static [&'static [Op]],
}

/// Returns a scenario of two buckets.
pub(crate) const fn scenario(first: &'static [Op], threads: &'static [&'static [Op]]) -> Scenario {
    let preemptions = model::PREEMPTIONS;
    Scenario { buckets: 2, refresh: false, ahead: 0, preemptions, broken: false, first, threads }
}

impl Scenario {
    pub(crate) const fn with_refresh(self) -> Self {
        Scenario { refresh: true, ..self }
    }

    pub(crate) const fn with_buckets(self, buckets: usize) -> Self {
        Scenario { buckets, ..self }
    }

    /// Stamps entries as far ahead as a clock that lags may have it.
    pub(crate) const fn stamped_ahead(self) -> Self {
        Scenario { ahead: 2, ..self }
    }

    /// Runs executions with one preemption less, where `HAPAX_LONG` does not ask for all: those
    /// take as long as all other scenarios together.
    pub(crate) const fn with_a_preemption_less(self) -> Self {
        Scenario { preemptions: model::PREEMPTIONS - 1, ..self }
    }

    pub(crate) const fn broken(self) -> Self {
        Scenario { broken: true, ..self }
    }
}

/// Defines scenarios by name. Each is a test of its own, so that they share the machine's cores.
macro_rules! scenarios {
    ($($name:ident: $scenario:expr;)*) => {
        pub(crate) const SCENARIOS: &[(&str, super::scenario::Scenario)] = &[
            $((stringify!($name), $scenario)),*
        ];
        $(
            #[test]
            fn $name() {
                const SCENARIO: &super::scenario::Scenario = &$scenario;
                let preemptions = crate::long::long(SCENARIO.preemptions, crate::sync::model::PREEMPTIONS);
                crate::sync::model::check_up_to(preemptions, stringify!($name), || super::world::run(SCENARIO));
            }
        )*
    };
}
pub(crate) use scenarios;
