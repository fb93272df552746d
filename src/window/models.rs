//! The line protocol under loom: every interleaving, and every reordering that the memory orderings allow, of small scenarios with
//! at most three preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --lib models` runs them. The code is the window's own, on lines of two slots. No
//! model is cut off by time or by a number of executions, so a model that ends is complete; how many executions it took is
//! printed, for looks that read forward and backward. Mutants, which leave out a rule each, show that the models would notice.

use super::line::{self, LineMemory, Lost, Overtaken, Place};
use super::slot::{Key, Slot, Tag};
use super::table::Table;
use super::tick::{Moment, Tick};
use super::view::View;
use crate::Outcome;
use crate::sync::{Ordering, fence};
use loom::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const WINDOW_TICKS: u64 = 100;
const PREEMPTIONS: usize = 3;

type SmallTable = Table<2, 3>;

/// A rule of the protocol, left out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mutant {
    None,
    /// Views are believed, valid or not.
    Valid,
    /// An insertion does not mind whether the slot has changed.
    Compare,
    /// Looking at a line synchronizes with nobody.
    Acquire,
    /// The newcomer does not say that what it displaced has moved.
    Flag,
    /// What must be kept is not moved before it is overwritten.
    Relocate,
}

/// Two lines, each the other's alternate.
#[derive(Clone)]
struct Lines {
    table: Arc<SmallTable>,
    mutant: Mutant,
    /// In which order a look reads the slots. Vectors promise none.
    backward: bool,
    /// Tags of entries that were displaced for good. Not part of the model.
    evicted: std::sync::Arc<Mutex<Vec<Tag>>>,
}

impl LineMemory for Lines {
    const SLOTS: usize = SmallTable::SLOTS;
    const LAP_MASK: u64 = SmallTable::LAP_MASK;

    fn lines(&self) -> usize {
        self.table.lines()
    }

    fn view(&self, line: usize, key: Key, moment: &Moment) -> View {
        let mut view = match (self.backward, self.mutant) {
            (false, Mutant::None) => self.table.view(line, key, moment),
            _ => {
                let slots = self.table.line(line).each_ref();
                let mut order = [0, 1];
                if self.backward {
                    order.reverse();
                }
                let mut seen = [Slot::default(); 2];
                for i in order {
                    seen[i] = Slot(slots[i].load(Ordering::Relaxed));
                }
                if self.mutant != Mutant::Acquire {
                    fence(Ordering::Acquire);
                }
                View::of(&seen, key, moment, Self::LAP_MASK)
            }
        };
        view.valid |= self.mutant == Mutant::Valid;
        view
    }

    fn load(&self, line: usize, slot: usize) -> Slot {
        match self.mutant {
            Mutant::Acquire => Slot(self.table.line(line)[slot].load(Ordering::Relaxed)),
            _ => self.table.load(line, slot),
        }
    }

    fn replace(&self, line: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool {
        let done = match self.mutant {
            Mutant::Compare => {
                self.table.line(line)[slot].store(new.0, Ordering::Release);
                true
            }
            Mutant::Flag => self.table.replace(line, slot, old, new.without_flag(), lost),
            Mutant::Relocate if new.is_away() => true,
            _ => self.table.replace(line, slot, old, new, lost),
        };
        if done && lost.is_some() {
            self.evicted.lock().unwrap().extend(old.tag());
        }
        done
    }

    fn prefetch(&self, _line: usize) {}

    // Time stands still in these models: sweeps and overtaking have no part in them.
    fn is_ready(&self, _line: usize, _moment: &Moment) -> bool {
        true
    }

    fn ready(&self, _line: usize, _moment: &Moment) {}

    fn overtaken(&self, _moment: &Moment) -> bool {
        false
    }

    fn repaired(&self) {
        panic!("a line is broken");
    }

    fn moment(&self, tick: Tick) -> Moment {
        self.table.moment(tick)
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Checks an id at a tick.
    Check(u64, u64),
    /// Forgets an id, which this thread alone checks from then on: it is fresh.
    ForgetAndCheck(u64, u64),
}
use Op::{Check, ForgetAndCheck};

/// Ids from 10 on live in line 1, the others in line 0.
fn place(id: u64) -> Place {
    Place { line: usize::from(id >= 10), tag: Tag::of(id << 18) }
}

fn check(lines: &Lines, id: u64, now: u64) -> bool {
    let tick = Tick { now, stamp: now };
    line::check(lines, place(id), &lines.moment(tick), false) == Ok::<_, Overtaken>(Outcome::Fresh)
}

/// Checks that found their id fresh, by id.
type Fresh = Vec<u64>;

fn run(lines: &Lines, op: Op, fresh: &mut Fresh) {
    match op {
        Check(id, now) => fresh.extend(check(lines, id, now).then_some(id)),
        ForgetAndCheck(id, now) => {
            let tick = Tick { now, stamp: now };
            super::forget::forget(lines, place(id), || lines.moment(tick), false);
            assert!(check(lines, id, now), "{id} is a duplicate after it was forgotten");
        }
    }
}

/// Runs a scenario: first one thread, then several at once. Each id must be fresh once (id 1 once for each of its lives), and may
/// be once more each time it was evicted. Returns the number of executions.
fn explore(mutant: Mutant, backward: bool, (_, lives, first, threads): Scenario) -> usize {
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = executions.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = 100_000;
    assert!(builder.max_duration.is_none() && builder.max_permutations.is_none(), "or it may be cut off");
    builder.check(move || {
        counter.fetch_add(1, SeqCst);
        let lines = Lines {
            table: Arc::new(SmallTable::new(2, WINDOW_TICKS).unwrap()),
            mutant,
            backward,
            evicted: Default::default(),
        };
        let mut fresh = Fresh::new();
        first.iter().for_each(|op| run(&lines, *op, &mut fresh));
        let handles: Vec<_> = threads[1..]
            .iter()
            .map(|ops| {
                let lines = lines.clone();
                loom::thread::spawn(move || {
                    let mut fresh = Fresh::new();
                    ops.iter().for_each(|op| run(&lines, *op, &mut fresh));
                    fresh
                })
            })
            .collect();
        threads[0].iter().for_each(|op| run(&lines, *op, &mut fresh));
        handles.into_iter().for_each(|handle| fresh.extend(handle.join().unwrap()));
        judge(&lines, lives, first, threads, &fresh);
    });
    executions.load(SeqCst)
}

fn judge(lines: &Lines, lives: usize, first: &[Op], threads: &[&[Op]], fresh: &Fresh) {
    let evicted = lines.evicted.lock().unwrap();
    let checked = first.iter().chain(threads.iter().copied().flatten()).filter_map(|op| match op {
        Check(id, _) => Some(*id),
        ForgetAndCheck(..) => None,
    });
    let forgotten =
        |id: u64| threads.iter().copied().flatten().any(|op| matches!(op, ForgetAndCheck(f, _) if *f == id));
    for id in checked.filter(|id| !forgotten(*id)) {
        let times = fresh.iter().filter(|f| **f == id).count();
        let lives = if id == 1 { lives } else { 1 };
        let evicted = evicted.iter().filter(|tag| **tag == place(id).tag).count();
        assert!((lives..=lives + evicted).contains(&times), "{id} was fresh {times} times and evicted {evicted} times");
    }
    for line in 0..2 {
        let slots: Vec<Slot> = (0..2).map(|slot| lines.table.load(line, slot)).collect();
        assert!(View::is_ring(&slots, Lines::LAP_MASK), "line {line} is no ring: {slots:?}");
    }
}

/// What it is, how many windows id 1 lives through, and what is done.
type Scenario = (&'static str, usize, &'static [Op], &'static [&'static [Op]]);

/// A window has 100 ticks.
const SCENARIOS: [Scenario; 12] = [
    ("an empty line", 1, &[], &[&[Check(1, 1)], &[Check(1, 1)]]),
    ("an empty line, three callers, a clock ahead", 1, &[], &[&[Check(1, 1)], &[Check(1, 2)], &[Check(1, 1)]]),
    (
        "a full line of expired entries",
        1,
        &[Check(5, 1), Check(6, 1)],
        &[&[Check(1, 104)], &[Check(1, 105)], &[Check(2, 104)]],
    ),
    ("a full line of live entries", 1, &[Check(5, 1), Check(6, 1)], &[&[Check(1, 1)], &[Check(1, 2)]]),
    ("a full line and another id", 1, &[Check(5, 1), Check(6, 1)], &[&[Check(1, 1)], &[Check(1, 2)], &[Check(2, 1)]]),
    (
        "more than a lap goes by",
        1,
        &[Check(5, 1), Check(6, 1)],
        &[&[Check(1, 1)], &[Check(2, 1), Check(1, 1), Check(3, 1)]],
    ),
    ("an entry is displaced while it is checked", 1, &[Check(1, 1), Check(6, 1)], &[&[Check(2, 1)], &[Check(1, 2)]]),
    ("two are displaced", 1, &[Check(1, 1), Check(6, 1)], &[&[Check(2, 1), Check(3, 1)], &[Check(1, 2)]]),
    (
        "both lines full, displaced in both directions",
        1,
        &[Check(1, 1), Check(2, 1), Check(11, 1), Check(12, 1)],
        &[&[Check(3, 1)], &[Check(13, 1)]],
    ),
    (
        "the same, and the displaced are checked",
        1,
        &[Check(1, 1), Check(2, 1), Check(11, 1)],
        &[&[Check(3, 1), Check(1, 1)], &[Check(12, 1), Check(11, 1)]],
    ),
    ("an expired entry, clocks a tick apart", 2, &[Check(1, 1), Check(6, 3)], &[&[Check(1, 102)], &[Check(1, 101)]]),
    (
        "an entry is forgotten while it is displaced",
        1,
        &[Check(5, 1), Check(6, 1), Check(1, 1), Check(8, 1)],
        &[&[Check(2, 1)], &[ForgetAndCheck(1, 1)]],
    ),
];

#[test]
fn every_scenario_is_right_in_every_execution() {
    for scenario in SCENARIOS {
        let executions = [false, true].map(|backward| explore(Mutant::None, backward, scenario));
        println!("{}: complete at {PREEMPTIONS} preemptions after {executions:?} executions", scenario.0);
    }
}

#[test]
fn mutants_are_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let fails = |mutant, backward, scenario| std::panic::catch_unwind(|| explore(mutant, backward, scenario)).is_err();
    let notices = |mutant, scenario| fails(mutant, false, scenario) || fails(mutant, true, scenario);
    let noticed = |mutant| SCENARIOS.into_iter().find(|scenario| notices(mutant, *scenario));
    let mutants = [Mutant::Valid, Mutant::Compare, Mutant::Acquire, Mutant::Flag, Mutant::Relocate];
    let found = mutants.map(|mutant| (mutant, noticed(mutant).map(|scenario| scenario.0)));
    std::panic::set_hook(hook);
    for (mutant, scenario) in found {
        println!("without {mutant:?}: {scenario:?}");
        assert!(scenario.is_some(), "no model notices that {mutant:?} is missing");
    }
}
