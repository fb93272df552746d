//! Atomics whose every interleaving is explored (`src/window/explore/`).
//!
//! An [`AtomicU64`] is the number of a word, and each access to it is a step. A caller is suspended
//! before an access by leaving its operation altogether. It is resumed by running the operation
//! again from its beginning, with the values that its accesses observed before. So an operation
//! must depend on nothing but its arguments and the values that it reads.

use super::Ordering;
use std::cell::RefCell;

/// A word of the explored memory.
#[derive(Debug)]
pub(crate) struct AtomicU64(usize);

/// An operation's access to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store(u64),
    CompareExchange(u64, u64),
    FetchAdd(u64),
    FetchOr(u64),
    FetchMax(u64),
}

/// An event in an operation that no word shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// An entry was lost that must be kept: its bucket's first word, and its slot's content.
    Lost(usize, u64),
    /// A bucket was repaired.
    Repaired,
}

/// Leaves an operation before its next access.
pub(crate) struct Suspended;

/// The word had another value. The value is not given: it would become part of what a caller
/// remembers.
#[derive(Debug)]
pub(crate) struct Failed;

/// The words, and the operation that is run again.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) words: Vec<u64>,
    /// The operation under replay; `None`: accesses take place.
    pub(crate) replay: Option<Replay>,
}

/// A run of an operation with the values that its accesses observed.
#[derive(Default)]
pub(crate) struct Replay {
    /// The values that it observes: those that it is run with, and what loads observed after that.
    pub(crate) observed: Vec<u64>,
    at: usize,
    /// The values of loads after that: the words as they are. So one run, which is much to leave,
    /// tells of all loads that follow, if nobody comes between.
    ahead: Vec<u64>,
    /// The places where it has been after what it was run with, each before an access.
    pub(crate) stops: Vec<(Memory, usize, Access)>,
    /// The place where it is.
    pub(crate) memory: Memory,
}

/// The place of an operation after an access.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    /// The part of its observations that it may remember: two histories with one memory have one
    /// future.
    pub(crate) observed: Vec<u64>,
    /// The tick that it has agreed on with others, in one word.
    pub(crate) tick: Option<u64>,
    /// The effects after the last access.
    pub(crate) effects: Vec<Effect>,
}

/// The most loads that a run is ahead.
const AHEAD_MAX: usize = 32;

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::default();
}

pub(crate) fn machine<R>(with: impl FnOnce(&mut Machine) -> R) -> R {
    MACHINE.with_borrow_mut(with)
}

impl Access {
    /// Returns the word's value after this access.
    pub(crate) fn result(self, word: u64) -> u64 {
        match self {
            Access::Load => word,
            Access::Store(value) => value,
            Access::CompareExchange(old, new) => {
                if word == old {
                    new
                } else {
                    word
                }
            }
            Access::FetchAdd(add) => word.wrapping_add(add),
            Access::FetchOr(bits) => word | bits,
            Access::FetchMax(least) => word.max(least),
        }
    }
}

impl Replay {
    pub(crate) fn of(observed: Vec<u64>, ahead: Vec<u64>) -> Self {
        Replay { observed, ahead, ..Replay::default() }
    }

    /// Returns the value that the next access observes; `None` if the operation is left before it.
    fn observe(&mut self, word: usize, access: Access) -> Option<u64> {
        if self.at == self.observed.len() {
            self.stops.push((self.memory.clone(), word, access));
            let ahead = self.ahead.get(word).filter(|_| access == Access::Load && self.stops.len() <= AHEAD_MAX);
            self.observed.push(*ahead?);
        }
        let value = self.observed[self.at];
        self.at += 1;
        self.memory.effects.clear();
        // A compare-and-swap reveals no more than whether it has succeeded (`Failed`).
        self.memory.observed.push(match access {
            Access::CompareExchange(old, _) => u64::from(old == value),
            _ => value,
        });
        Some(value)
    }
}

impl Default for AtomicU64 {
    fn default() -> Self {
        AtomicU64::new(0)
    }
}

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        machine(|machine| {
            assert!(machine.replay.is_none(), "operations make no atomics");
            machine.words.push(value);
            AtomicU64(machine.words.len() - 1)
        })
    }

    /// Returns the word's number.
    pub(crate) fn word(&self) -> usize {
        self.0
    }

    fn access(&self, access: Access) -> u64 {
        let observed = machine(|machine| match &mut machine.replay {
            Some(replay) => replay.observe(self.0, access),
            None => {
                let before = machine.words[self.0];
                machine.words[self.0] = access.result(before);
                Some(before)
            }
        });
        // `resume_unwind` does not call the panic hook.
        observed.unwrap_or_else(|| std::panic::resume_unwind(Box::new(Suspended)))
    }

    pub(crate) fn load(&self, _order: Ordering) -> u64 {
        self.access(Access::Load)
    }

    pub(crate) fn store(&self, value: u64, _order: Ordering) {
        self.access(Access::Store(value));
    }

    pub(crate) fn compare_exchange(&self, old: u64, new: u64, _: Ordering, _: Ordering) -> Result<u64, Failed> {
        if self.access(Access::CompareExchange(old, new)) == old { Ok(old) } else { Err(Failed) }
    }

    pub(crate) fn fetch_add(&self, add: u64, _order: Ordering) -> u64 {
        self.access(Access::FetchAdd(add))
    }

    pub(crate) fn fetch_sub(&self, less: u64, _order: Ordering) -> u64 {
        self.access(Access::FetchAdd(less.wrapping_neg()))
    }

    pub(crate) fn fetch_or(&self, bits: u64, _order: Ordering) -> u64 {
        self.access(Access::FetchOr(bits))
    }

    pub(crate) fn fetch_max(&self, least: u64, _order: Ordering) -> u64 {
        self.access(Access::FetchMax(least))
    }
}

/// Does nothing: there is nothing to order, since steps come one after another.
pub(crate) fn fence(_order: Ordering) {}

pub(crate) fn spin_loop() {}

/// Declares that the operation remembers nothing but this of its last `accesses` loads.
pub(crate) fn remember(accesses: usize, what: &[u64]) {
    machine(|machine| {
        if let Some(Replay { memory: Memory { observed, .. }, .. }) = &mut machine.replay {
            observed.truncate(observed.len() - accesses);
            observed.push(SUM);
            observed.extend(what);
        }
    });
}

/// Declares that the operation remembers nothing of a call but what it returned.
pub(crate) fn sum_up<R>(call: impl FnOnce() -> R, what: impl FnOnce(&R) -> u64) -> R {
    let length = |machine: &mut Machine| machine.replay.as_ref().map_or(0, |replay| replay.memory.observed.len());
    let before = machine(length);
    let returned = call();
    let accesses = machine(length) - before;
    remember(accesses, &[!0, what(&returned)]);
    returned
}

/// A mark for a memory that is no observation.
const SUM: u64 = 0x5eed_5eed_5eed_5eed;

/// Notes an effect of the last access.
pub(crate) fn happened(effect: Effect) {
    machine(|machine| {
        if let Some(replay) = &mut machine.replay {
            replay.memory.effects.push(effect);
        }
    });
}

/// Notes that the operation goes on at this tick.
pub(crate) fn agreed(tick: u64) {
    machine(|machine| {
        if let Some(replay) = &mut machine.replay {
            replay.memory.tick = Some(tick);
        }
    });
}
