//! The search that visits all states of a scenario.
//!
//! A state consists of the words, how far each caller is, and what the monitors know. Callers'
//! histories only grow, so no state comes back, and a search that ends has shown that every caller
//! returns under every schedule, however unfair. A caller that runs on and on, alone or while
//! others go on, is reported.
//!
//! **Loads that commute.** A caller's load of a word that no caller changes any more takes place at
//! once, without exploring what others might do first: whatever they do, it observes the same, and
//! they do not notice it. The search guesses which contents are final (all of them); where a guess
//! proves wrong, it starts over without that guess. If it ends without a wrong guess, no execution
//! was missed. For suppose that some were: take the first one that differs by more than the places
//! of such loads. Some step in it must have changed a word that the search took for final, but up
//! to there the search has visited the same states, and would have noticed. Operations begin with
//! their first step that is not of this kind, and so take less time than they might: the monitors
//! are all the stricter.

use super::automaton::{Automaton, Next};
use super::monitor::Monitor;
use super::scenario::{Id, Scenario};
use super::state::{MixedMap, MixedSet, Paths, Place, State};
use super::subject::Subject;
use crate::sync::explored::{Access, Effect, machine};
use std::collections::VecDeque;

/// The most accesses of an operation, more than any needs: a caller that makes this many spins.
const ACCESSES_MAX: usize = 1500;

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) states: usize,
    /// The number of operations' histories that were run.
    pub(crate) histories: usize,
    /// The number of times that a bucket was repaired, over all states.
    pub(crate) repairs: u64,
    /// True if some states were not visited, because there were too many.
    pub(crate) capped: bool,
    pub(crate) violation: Option<Violation>,
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) what: String,
    /// The callers whose steps led there, in order.
    pub(crate) schedule: Vec<u8>,
}

/// The order in which states are visited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Depth first, which takes little memory.
    DepthFirst,
    /// Breadth first: the first violation is one with the fewest steps.
    BreadthFirst,
}

pub(crate) struct Search<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) subject: &'a dyn Subject,
    pub(super) automaton: Automaton<'a>,
    /// The nodes where each caller's operations begin.
    pub(super) starts: Vec<Vec<usize>>,
    pub(super) ids: Vec<Id>,
    pub(super) monitors: Vec<Monitor>,
    pub(super) known_monitors: MixedMap<Monitor, u64>,
    /// All words with their first values, and the places in a state of those that change.
    pub(super) words: Vec<u64>,
    pub(super) places: Vec<Option<usize>>,
    /// The number of words that change.
    pub(super) changing_words: usize,
    pub(super) first: State,
    /// The contents that are not final, and (in `trusted`) those that were taken for final.
    pub(super) changing: MixedSet<(usize, u64)>,
    pub(super) trusted: MixedSet<(usize, u64)>,
    /// True if a content was taken for final and is not.
    pub(super) mistaken: bool,
    pub(super) repairs: u64,
}

/// The result of a step, which may end the search.
pub(super) type Stepped = Result<(), String>;

impl<'a> Search<'a> {
    /// Creates a search, and does the operations that come before.
    pub(crate) fn new(scenario: &'a Scenario, subject: &'a dyn Subject) -> Result<Self, String> {
        let ids = scenario.ids();
        let mut automaton = Automaton::new(subject);
        let starts = scenario.callers.iter().map(|ops| ops.iter().map(|op| automaton.start(op)).collect()).collect();
        let words = machine(|machine| machine.words.clone());
        let mut search = Search {
            scenario,
            subject,
            automaton,
            starts,
            first: State(Vec::new()),
            monitors: Vec::new(),
            known_monitors: MixedMap::default(),
            places: (0..words.len()).map(Some).collect(),
            changing_words: words.len(),
            words,
            ids,
            changing: MixedSet::default(),
            trusted: MixedSet::default(),
            mistaken: false,
            repairs: 0,
        };
        let fresh = search.intern(Monitor::new());
        let mut state = State(search.words.clone());
        state.0.push(0);
        state.0.extend(search.ids.iter().map(|_| fresh));
        // They are done by a single caller.
        for op in &scenario.before {
            let starts = std::mem::replace(&mut search.starts, vec![vec![search.automaton.start(op)]]);
            let first = Place { node: search.starts[0][0], op: 0, began: false };
            search.set_place(&mut state, 0, first);
            while search.next(&state, 0).is_some() {
                search.step(&mut state, 0, false)?;
            }
            search.starts = starts;
        }
        let words = search.words.len();
        search.words.copy_from_slice(&state.0[..words]);
        let places = search.starts.iter().map(|starts| Place { node: starts[0], op: 0, began: false }.pack());
        state.0.splice(words..=words, places.collect::<Vec<_>>());
        search.first = state;
        search.find_changing_words();
        Ok(search)
    }

    /// Takes words for constant that do not change in some random executions.
    fn find_changing_words(&mut self) {
        const EXECUTIONS: usize = 30;
        self.changing.clear();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..EXECUTIONS {
            let mut state = self.first.clone();
            loop {
                let callers: Vec<usize> = (0..self.starts.len()).filter(|i| self.next(&state, *i).is_some()).collect();
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // Violations are for `run` to find.
                let Some(caller) = callers.get((random >> 33) as usize % callers.len().max(1)) else { break };
                if self.step(&mut state, *caller, false).is_err() {
                    break;
                }
            }
        }
        self.places.fill(None);
        self.first.0.drain(..self.words.len());
        self.changing_words = 0;
        let mut changing: Vec<usize> = self.changing.iter().map(|(word, _)| *word).collect();
        changing.sort_unstable();
        changing.dedup();
        changing.into_iter().for_each(|word| self.add_changing(word));
    }

    /// Adds a word to all states from now on.
    fn add_changing(&mut self, word: usize) {
        self.places[word] = Some(self.changing_words);
        self.first.0.insert(self.changing_words, self.words[word]);
        self.changing_words += 1;
    }

    /// Visits states, but no more than `states_max`.
    pub(crate) fn run(&mut self, states_max: usize, order: Order) -> Report {
        loop {
            let (states, capped, violation) = self.visit(states_max, order);
            if !self.mistaken || violation.is_some() {
                let histories = self.automaton.len();
                return Report { states, histories, repairs: self.repairs, capped, violation };
            }
        }
    }

    fn visit(&mut self, states_max: usize, order: Order) -> (usize, bool, Option<Violation>) {
        self.mistaken = false;
        self.trusted.clear();
        self.repairs = 0;
        let mut seen = MixedSet::<u128>::default();
        let mut paths = Paths::default();
        let mut todo = VecDeque::new();
        let mut first = self.first.clone();
        let (mut after, mut schedule) = (first.clone(), Vec::new());
        if let Err(what) = self.settle(&mut first, &mut schedule) {
            return (1, false, Some(Violation { what, schedule }));
        }
        seen.insert(first.fingerprint());
        todo.push_back((first, paths.add(None, &schedule)));
        while let Some((state, path)) = if order == Order::DepthFirst { todo.pop_back() } else { todo.pop_front() } {
            let mut finished = true;
            for caller in 0..self.starts.len() {
                if self.next(&state, caller).is_none() {
                    continue;
                }
                finished = false;
                after.0.clone_from(&state.0);
                schedule.clear();
                schedule.push(caller as u8);
                let stepped =
                    self.step(&mut after, caller, false).and_then(|()| self.settle(&mut after, &mut schedule));
                if self.mistaken {
                    return (seen.len(), false, None);
                }
                if let Err(what) = stepped {
                    return (seen.len(), false, Some(Violation { what, schedule: paths.schedule(path, &schedule) }));
                }
                if seen.insert(after.fingerprint()) {
                    if seen.len() >= states_max {
                        return (seen.len(), true, None);
                    }
                    todo.push_back((after.clone(), paths.add(Some(path), &schedule)));
                }
            }
            if finished && let Err(what) = self.look_around(&state) {
                return (seen.len(), false, Some(Violation { what, schedule: paths.schedule(path, &[]) }));
            }
        }
        (seen.len(), false, None)
    }

    /// Returns the next access of a caller that has not finished.
    pub(super) fn next(&self, state: &State, caller: usize) -> Option<(usize, Access)> {
        let place = self.place(state, caller);
        if place.op == self.starts[caller].len() {
            return None;
        }
        match self.automaton.node(place.node).next {
            Next::Access(word, access) => Some((word, access)),
            _ => unreachable!("an operation that has ended was taken for one under way"),
        }
    }

    /// Takes all steps that commute with the steps of others.
    fn settle(&mut self, state: &mut State, schedule: &mut Vec<u8>) -> Stepped {
        let mut caller = 0;
        while caller < self.starts.len() && !self.mistaken {
            if self.is_quiet(state, caller) {
                self.step(state, caller, true)?;
                schedule.push(caller as u8);
                caller = 0;
            } else {
                caller += 1;
            }
        }
        Ok(())
    }

    /// Returns true if a caller's next step is a load of a content that no caller will change. (But
    /// not if it were the whole operation, which might well happen later.)
    fn is_quiet(&mut self, state: &State, caller: usize) -> bool {
        let Some((word, Access::Load)) = self.next(state, caller) else { return false };
        let content = (word, self.value(state, word));
        if self.changing.contains(&content) {
            return false;
        }
        let place = self.place(state, caller);
        let (to, _) = self.follow(state, place.node, content.1);
        if !place.began && matches!(self.automaton.node(to).next, Next::Done(_)) {
            return false;
        }
        self.trusted.insert(content);
        true
    }

    /// Makes a caller's next access, and judges its effects.
    pub(super) fn step(&mut self, state: &mut State, caller: usize, quiet: bool) -> Stepped {
        let mut place = self.place(state, caller);
        let (word, access) = self.next(state, caller).expect("it has not finished");
        let value = self.value(state, word);
        let written = access.result(value);
        if written != value {
            self.changing.insert((word, value));
            self.mistaken |= self.trusted.contains(&(word, value));
            match self.places[word] {
                Some(place) => state.0[place] = written,
                None => {
                    self.add_changing(word);
                    self.mistaken = true;
                    return Ok(());
                }
            }
        }
        place.began |= !quiet;
        let before = self.automaton.node(place.node).tick;
        let (to, effects) = self.follow(state, place.node, value);
        let effects = effects.to_vec();
        if before.is_some() && self.automaton.node(to).tick != before {
            self.go_on(state, caller);
        }
        place.node = to;
        self.set_place(state, caller, place);
        if self.automaton.node(to).observed.len() > ACCESSES_MAX {
            return Err(format!("{:?} spins: {ACCESSES_MAX} accesses and no end", self.automaton.op(to)));
        }
        for effect in effects {
            match effect {
                Effect::Lost(first_word, entry) => self.lose(state, first_word, entry),
                Effect::Repaired if !self.scenario.breaks => return Err("a bucket was broken".into()),
                Effect::Repaired => self.repairs += 1,
            }
        }
        match self.automaton.node(to).next.clone() {
            Next::Access(..) => Ok(()),
            Next::Panicked(message) => Err(format!("{:?} panics: {message}", self.automaton.op(to))),
            Next::Done(fresh) => self.end(state, caller, fresh),
        }
    }

    /// Returns where a caller is that observes this value, and then what the words are in a state.
    pub(super) fn follow(&mut self, state: &State, node: usize, value: u64) -> (usize, &[Effect]) {
        let words = self.places.iter().zip(&self.words);
        self.automaton
            .follow(node, value, || words.map(|(place, word)| place.map_or(*word, |place| state.0[place])).collect())
    }

    pub(super) fn value(&self, state: &State, word: usize) -> u64 {
        self.places[word].map_or(self.words[word], |place| state.0[place])
    }

    pub(super) fn place(&self, state: &State, caller: usize) -> Place {
        Place::unpack(state.0[self.changing_words + caller])
    }

    pub(super) fn set_place(&self, state: &mut State, caller: usize, place: Place) {
        state.0[self.changing_words + caller] = place.pack();
    }
}
