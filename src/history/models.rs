//! Models of the turning of the history's generations, under loom: an id that was inserted is
//! found for a horizon.
//!
//! The code is the history's own, with one block. A thread that stalls anywhere, for however long,
//! does no harm.

use super::HistoryTier;
use super::block::Shape;
use super::rotating::TICK_NANOS;
use super::sizing::Size;
use super::turn::Turn;
use crate::digest::Digest;
use crate::mutation::Rule;
use crate::sync::{Ordering, model};
use crate::{Outcome, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The horizon in ticks of `rotating.rs`.
const HORIZON_TICKS: u64 = 256;

type Id = u64;

/// A call. The last number is the caller's tick.
#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(Id, u64),
    Check(Id, u64),
    /// A look whether the id is there.
    Look(Id),
}
use Op::{Check, Insert, Look};

/// The calls of a run: first one thread calls, then several at once.
struct Scenario {
    first: &'static [Op],
    threads: &'static [&'static [Op]],
}

const fn scenario(first: &'static [Op], threads: &'static [&'static [Op]]) -> Scenario {
    Scenario { first, threads }
}

/// Makes each scenario a test of its own, so that they share the machine's cores.
macro_rules! scenarios {
    ($($name:ident: $scenario:expr;)*) => {
        const SCENARIOS: &[(&str, Scenario)] = &[$((stringify!($name), $scenario)),*];
        $(
            #[test]
            fn $name() {
                const SCENARIO: &Scenario = &$scenario;
                model::check(stringify!($name), || run(SCENARIO));
            }
        )*
    };
}

// A generation lasts for 256 ticks: the one that is current from 300 on until 555, the next until
// 811 if a thread comes at 556.
scenarios! {
    the_first_ids: scenario(&[], &[&[Insert(2, 1000), Look(2)], &[Insert(3, 1000), Look(3)]]);
    a_check_and_a_check: scenario(&[], &[&[Check(1, 1), Look(1)], &[Check(1, 1), Look(1)]]);
    two_callers_turn: scenario(
        &[Insert(1, 300), Insert(4, 556), Insert(5, 811)],
        &[&[Insert(2, 812), Look(2)], &[Insert(3, 812), Look(3)]],
    );
    one_turns_while_another_looks: scenario(
        &[Insert(1, 300), Insert(4, 556), Insert(5, 811)],
        &[&[Insert(2, 812), Look(2)], &[Look(5), Look(5)]],
    );
    one_turns_while_another_checks: scenario(
        &[Insert(1, 300), Insert(4, 556), Insert(5, 811)],
        &[&[Insert(2, 812)], &[Check(3, 811), Look(3), Check(3, 812)]],
    );
    one_turns_while_another_inserts_what_is_later: scenario(
        &[Insert(1, 300), Insert(4, 556)],
        &[&[Insert(2, 812)], &[Insert(3, 830), Insert(6, 1086), Look(3)]],
    );
    one_inserts_at_the_tick_when_another_turns: scenario(
        &[Insert(1, 300), Insert(4, 556)],
        &[&[Insert(2, 812)], &[Insert(3, 812), Insert(6, 1068), Look(3)]],
    );
    who_turned_last_comes_again: scenario(
        &[Insert(1, 300), Insert(4, 556)],
        &[&[Insert(2, 812), Insert(6, 1067)], &[Check(3, 811), Look(3)]],
    );
}

struct World {
    history: HistoryTier,
    /// The record of all calls. It is no part of the model: no thread waits for it, and it orders
    /// nothing.
    calls: Mutex<Vec<Call>>,
}

struct Call {
    op: Op,
    /// The calls that were over before this one began, as far as its caller can know: a set, by
    /// number.
    before: u64,
    /// The id that was inserted and its tick, if one was.
    inserted: Option<(Id, u64)>,
    is_over: bool,
}

fn run(scenario: &'static Scenario) {
    let world = Arc::new(World { history: history(), calls: Mutex::new(Vec::new()) });
    let known = world.call_all(scenario.first, 0);
    let thread = |ops: &&'static [Op]| {
        let (ops, world) = (*ops, world.clone());
        Box::new(move || {
            world.call_all(ops, known);
        }) as Box<dyn FnOnce() + Send>
    };
    model::run_at_once(scenario.threads.iter().map(thread).collect());
    // A shard that stays in this state takes ids into one generation for ever.
    let is_clearing = world.history.turns.iter().any(|turn| Turn(turn.load(Ordering::Acquire)).is_clearing());
    assert!(!is_clearing, "all callers are done, and a generation that was to be cleared is not");
}

/// Returns a history of one block.
fn history() -> HistoryTier {
    let size = Size { shape: Shape { words: 2, bits: 4 }, blocks: 1 };
    HistoryTier::of_size(Duration::from_nanos(HORIZON_TICKS * TICK_NANOS), size).unwrap()
}

fn digest(id: Id) -> Digest {
    const MIX: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    Digest::from(u128::from(id).wrapping_mul(MIX).rotate_left(64) ^ MIX)
}

impl World {
    /// Makes calls, one after another. `known` are those that the caller knows to be over; returns
    /// them with those that it has made.
    fn call_all(&self, ops: &[Op], known: u64) -> u64 {
        ops.iter().fold(known, |known, op| known | self.call(*op, known))
    }

    fn call(&self, op: Op, known: u64) -> u64 {
        let number = self.begin(op, known);
        let at = |tick| Timestamp::from_nanos(tick * TICK_NANOS);
        let (found, inserted) = match op {
            Insert(id, tick) => {
                self.history.insert(digest(id), at(tick));
                (None, Some((id, tick)))
            }
            Check(id, tick) => {
                let fresh = self.history.check(digest(id), at(tick)) == Outcome::Fresh;
                (Some((id, !fresh)), fresh.then_some((id, tick)))
            }
            Look(id) => (Some((id, self.history.contains(digest(id)))), None),
        };
        self.end(number, inserted);
        if let Some((id, false)) = found {
            self.judge(number, id);
        }
        1 << number
    }

    fn begin(&self, op: Op, known: u64) -> usize {
        let mut calls = self.calls();
        // "Later" means nothing; only what happened before does.
        calls.push(Call { op, before: known, inserted: None, is_over: false });
        calls.len() - 1
    }

    fn end(&self, number: usize, inserted: Option<(Id, u64)>) {
        let call = &mut self.calls()[number];
        *call = Call { inserted, is_over: true, ..*call };
    }

    /// Judges an id that was not found.
    fn judge(&self, number: usize, id: Id) {
        let calls = self.calls();
        let latest = latest(&calls);
        let known = |i: usize| calls[number].before >> i & 1 == 1;
        let missed = calls.iter().enumerate().any(|(i, call)| {
            known(i) && call.inserted.is_some_and(|(other, at)| other == id && latest - at <= HORIZON_TICKS)
        });
        let all: Vec<_> = calls.iter().map(|call| (call.op, call.before, call.is_over)).collect();
        drop(calls);
        assert!(!missed, "{id} was not found by call {number} of {all:?}");
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap()
    }
}

/// Returns the latest tick that a call has begun with.
fn latest(calls: &[Call]) -> u64 {
    calls.iter().filter_map(|call| call.op.tick()).max().unwrap_or(0)
}

impl Op {
    fn tick(self) -> Option<u64> {
        match self {
            Insert(_, tick) | Check(_, tick) => Some(tick),
            Look(_) => None,
        }
    }
}

/// Checks that an absent id is not found for the sake of others: otherwise a model might find what
/// is not there, and miss nothing.
#[test]
fn no_id_is_found_for_the_sake_of_others() {
    for absent in 1..=6 {
        model::check(&format!("{absent} is not found for the sake of others"), move || {
            let history = Arc::new(history());
            let others = (1..=6).filter(|id| *id != absent);
            others.for_each(|id| history.insert(digest(id), Timestamp::from_millis(1)));
            let look = || {
                let history = history.clone();
                Box::new(move || assert!(!history.contains(digest(absent)))) as Box<dyn FnOnce() + Send>
            };
            model::run_at_once(vec![look(), look()]);
        });
    }
}

#[test]
fn rules_are_missed() {
    // Scenarios that notice nothing take longest, so the one that is known to comes first.
    for (rule, known) in [
        (Rule::ClearFirst, "two_callers_turn"),
        (Rule::ClearOnce, "the_first_ids"),
        (Rule::PutOff, "one_turns_while_another_inserts_what_is_later"),
    ] {
        let mut scenarios: Vec<_> = SCENARIOS.iter().collect();
        scenarios.sort_by_key(|(name, _)| *name != known);
        let by = scenarios
            .into_iter()
            .find_map(|(name, scenario)| Some((name, model::rejects(rule, move || run(scenario))?)));
        println!("without {rule:?}: {by:?}");
        assert!(by.is_some(), "nobody notices that {rule:?} is missing");
    }
}
