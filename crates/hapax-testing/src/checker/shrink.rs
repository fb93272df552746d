//! Shrinking: the shortest part of one id's history that is still wrong in the same way.
//!
//! An answer that changes nothing can be left out of any history: what is right with it is right
//! without it. Other operations may explain those that follow, so they are left out afterwards, and
//! only as long as no order is left at the same operation as before, for the same reason: the name
//! stays, and the operation that it contradicts. (But for two fresh answers that need a third
//! operation.)

use super::naming::{Row, Wrong};
use super::problem::Problem;
use super::search::{Failed, Remainder, Search, Step};
use super::state::{Specification, State};
use crate::operation::{Event, Operation};
use crate::subject::Semantics;
use std::mem::discriminant;

/// The largest number of steps that all attempts together may take: about a second.
const STEPS_MAX: usize = 5_000_000;

/// A wrong part of a history, to be shrunk.
pub(crate) struct Shrink<'a> {
    pub(crate) semantics: &'a Semantics,
    pub(crate) spec: &'a Specification,
    /// The state at the beginning.
    pub(crate) start: Option<&'a Remainder>,
    pub(crate) steps: &'a [Step],
    pub(crate) rows: &'a [Row],
    /// True if an eviction may explain a fresh answer.
    pub(crate) evictions_allowed: bool,
}

/// The shortest part that was found: which rows, and what is wrong.
pub(crate) struct Shrunk {
    pub(crate) kept: Vec<usize>,
    pub(crate) problem: Problem,
}

/// The problem, and the operation that it contradicts.
type Name = (Problem, Option<Operation>);

fn is_same(one: Name, other: Name) -> bool {
    discriminant(&one.0) == discriminant(&other.0) && one.1 == other.1
}

/// The attempts to leave something out.
struct Attempts<'a> {
    shrink: &'a Shrink<'a>,
    search: Search,
    steps_left: usize,
    stuck: Step,
    before: Vec<State>,
}

impl Shrink<'_> {
    /// Returns the shortest part that is found. `None` if this one is not wrong, or cannot be
    /// decided.
    pub(crate) fn shrunk(&self) -> Option<Shrunk> {
        let mut search = Search::new(self.evictions_allowed);
        let mut kept: Vec<_> = (0..self.steps.len()).collect();
        let stuck = self.stuck(&mut search, &kept)?;
        kept.retain(|&i| self.steps[i].invoked <= stuck.returned);
        let configurations = self.start.map_or(&[][..], |start| &start.configurations);
        let before = configurations.iter().map(|configuration| configuration.state).collect();
        let mut attempts = Attempts { shrink: self, search, steps_left: STEPS_MAX, stuck, before };
        let is_look = |step: &Step| match step.act.event {
            Event::Duplicate => !self.semantics.refresh_on_duplicate,
            Event::InProgress | Event::Mismatch | Event::Lost => true,
            _ => false,
        };
        attempts.reduce(&mut kept, is_look, None);
        let (name, mut unnamed) = (attempts.name(&kept), kept.clone());
        attempts.reduce(&mut kept, |_| true, Some(name));
        // Two fresh answers are wrong by themselves. If there is a third operation, it is what is
        // contradicted, and one of the two only overlaps.
        if name.0 == Problem::TwoFresh && kept.len() > 2 {
            attempts.reduce(&mut unnamed, |_| true, None);
            if unnamed.len() < kept.len() && attempts.name(&unnamed).0 != Problem::NoOrder {
                kept = unnamed;
            }
        }
        let (problem, _) = attempts.name(&kept);
        Some(Shrunk { kept, problem })
    }

    /// Returns the operation at which no order is left, if there is one.
    fn stuck(&self, search: &mut Search, kept: &[usize]) -> Option<Step> {
        let mut run = || {
            search.start(self.start)?;
            for &i in kept {
                search.catch_up(self.spec, self.steps[i].invoked)?;
                search.invoke(self.steps[i])?;
            }
            search.catch_up(self.spec, u64::MAX)
        };
        match run() {
            Err(Failed::NoOrder(step)) => Some(step),
            Ok(()) | Err(Failed::TooMany) => None,
        }
    }
}

impl Attempts<'_> {
    /// Leaves out what may go, first in large parts, then one by one, until nothing can.
    fn reduce(&mut self, kept: &mut Vec<usize>, may_go: impl Fn(&Step) -> bool, name: Option<Name>) {
        let candidates = |kept: &[usize]| -> Vec<usize> {
            let stuck = self.index(kept).map(|at| kept[at]);
            kept.iter().copied().filter(|&i| Some(i) != stuck && may_go(&self.shrink.steps[i])).collect()
        };
        let mut left = candidates(kept);
        let mut size = left.len();
        while size > 0 {
            let mut has_changed = false;
            for part in left.chunks(size) {
                let without: Vec<_> = kept.iter().copied().filter(|i| part.binary_search(i).is_err()).collect();
                if self.steps_left < without.len() {
                    return;
                }
                self.steps_left -= without.len();
                let still = self.shrink.stuck(&mut self.search, &without) == Some(self.stuck);
                if still && name.is_none_or(|name| is_same(name, self.name(&without))) {
                    *kept = without;
                    has_changed = true;
                }
            }
            left.retain(|i| kept.binary_search(i).is_ok());
            size = if has_changed && size == 1 { left.len().min(1) } else { size / 2 };
        }
    }

    /// Returns the place of the stuck operation: of equal ones the last.
    fn index(&self, kept: &[usize]) -> Option<usize> {
        kept.iter().rposition(|&i| self.shrink.steps[i] == self.stuck)
    }

    fn name(&self, kept: &[usize]) -> Name {
        let rows: Vec<_> = kept.iter().map(|&i| self.shrink.rows[i]).collect();
        // An operation of an earlier piece, without an answer, is not among the rows.
        let Some(stuck) = self.index(kept) else { return (Problem::NoOrder, None) };
        Wrong { rows: &rows, stuck, before: &self.before, semantics: self.shrink.semantics }.name()
    }
}
