//! The search for every order of threads' steps that can make a difference.
//!
//! It is stateless: an execution is a sequence of choices, and the next one goes back to the last
//! choice that may have to be made otherwise. Which those are is found by dynamic partial-order
//! reduction (Flanagan and Godefroid, POPL 2005): where two steps of an execution do not commute,
//! and nothing orders them, the other order is tried. Sleep sets (Godefroid, 1996) spare orders
//! that are equal to one that was tried. So when it ends, every order was executed, or one that
//! differs from it by steps that commute.

use std::fmt::Write;

/// The most threads of a scenario.
pub(crate) const THREADS: usize = 4;

/// A set of threads.
type Set = u8;

/// The kind of a step. Reads of one object commute, and so do the beginnings of two calls, and the
/// ends of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// A lock is taken. (Letting it go is part of the last step under it.)
    Lock,
    Call,
    Return,
}

/// The first thing that a step does; whatever else it does up to the next one commutes with all
/// that others can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) object: u64,
    pub(crate) kind: Kind,
}

impl Step {
    fn commutes_with(self, other: Step) -> bool {
        let alike = self.kind == other.kind && !matches!(self.kind, Kind::Write | Kind::Lock);
        self.object != other.object || alike
    }
}

/// A state in which a choice was made.
struct Choice {
    /// The next step of each thread that has not ended.
    next: [Option<Step>; THREADS],
    enabled: Set,
    /// The threads whose step would lead to what was tried before.
    asleep: Set,
    /// The threads that must be tried from here, and those that have been.
    wanted: Set,
    tried: Set,
    chosen: usize,
}

impl Choice {
    fn step(&self) -> Step {
        self.next[self.chosen].expect("it was enabled")
    }

    /// Returns the threads that are asleep after this step.
    fn asleep_after(&self) -> Set {
        let step = self.step();
        let sleeps = |t: &usize| self.next[*t].is_some_and(|next| next.commutes_with(step));
        let before = (self.asleep | self.tried) & !bit(self.chosen);
        each(before).filter(sleeps).map(bit).fold(0, |set, t| set | t)
    }
}

fn bit(thread: usize) -> Set {
    1 << thread
}

fn each(set: Set) -> impl Iterator<Item = usize> {
    (0..THREADS).filter(move |t| set & bit(*t) != 0)
}

/// The thread that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Of(usize),
    /// All threads have ended.
    End,
    /// Whatever comes, an execution before this one was equal to it.
    Known,
    /// Each thread waits for a lock that another one holds.
    Deadlock,
}

/// All executions so far.
#[derive(Default)]
pub(crate) struct Search {
    choices: Vec<Choice>,
    /// The choices of this execution that were made.
    depth: usize,
    /// What each thread knows: of each thread the number of the last step that comes before its own
    /// next one in every equal execution.
    clocks: [[usize; THREADS]; THREADS],
    /// The same of each step.
    stamps: Vec<[usize; THREADS]>,
}

impl Search {
    /// Begins an execution.
    pub(crate) fn begin(&mut self) {
        self.depth = 0;
        self.clocks = Default::default();
        self.stamps.clear();
    }

    /// Returns whose turn it is: `last` has had it before.
    pub(crate) fn turn(&mut self, next: [Option<Step>; THREADS], enabled: Set, last: usize) -> Turn {
        if self.depth == self.choices.len() {
            match (next.iter().all(Option::is_none), enabled) {
                (true, _) => return Turn::End,
                (_, 0) => return Turn::Deadlock,
                _ => {}
            }
            (0..THREADS).for_each(|t| self.find_race(t, next[t]));
            let asleep = self.choices.last().map_or(0, Choice::asleep_after);
            let awake = enabled & !asleep;
            // (Who has had the turn goes on, which takes no change of threads.)
            let chosen = if awake & bit(last) != 0 { Some(last) } else { each(awake).next() };
            let Some(chosen) = chosen else { return Turn::Known };
            let wanted = bit(chosen);
            self.choices.push(Choice { next, enabled, asleep, wanted, tried: 0, chosen });
        }
        let choice = &self.choices[self.depth];
        assert_eq!((choice.next, choice.enabled), (next, enabled), "the same choices lead elsewhere");
        let (chosen, step) = (choice.chosen, choice.step());
        self.depth += 1;
        self.note(chosen, step);
        Turn::Of(chosen)
    }

    /// Looks for the last step that does not commute with a thread's next one, and that nothing
    /// orders before it: the thread is to be tried there.
    fn find_race(&mut self, thread: usize, next: Option<Step>) {
        let Some(next) = next else { return };
        for (i, choice) in self.choices.iter_mut().enumerate().rev() {
            let other = choice.chosen;
            if other != thread && !choice.step().commutes_with(next) && self.clocks[thread][other] <= i {
                let is_enabled = choice.enabled & bit(thread) != 0;
                choice.wanted |= if is_enabled { bit(thread) } else { choice.enabled };
                return;
            }
        }
    }

    /// Notes a step in the order of what comes before what.
    fn note(&mut self, thread: usize, step: Step) {
        let mut clock = self.clocks[thread];
        for (choice, stamp) in self.choices.iter().zip(&self.stamps) {
            if !choice.step().commutes_with(step) {
                clock.iter_mut().zip(stamp).for_each(|(mine, its)| *mine = (*mine).max(*its));
            }
        }
        clock[thread] = self.depth;
        self.clocks[thread] = clock;
        self.stamps.push(clock);
    }

    /// Ends an execution; returns false if it was the last one.
    pub(crate) fn go_back(&mut self) -> bool {
        while let Some(choice) = self.choices.last_mut() {
            choice.tried |= bit(choice.chosen);
            let left = choice.wanted & !choice.tried & !choice.asleep;
            if let Some(chosen) = each(left).next() {
                choice.chosen = chosen;
                return true;
            }
            self.choices.pop();
        }
        false
    }

    /// Returns the number of steps of this execution.
    pub(crate) fn steps(&self) -> usize {
        self.depth
    }

    /// Returns the steps that led here, by `name` of their objects.
    pub(crate) fn schedule(&self, name: impl Fn(u64) -> String) -> String {
        let mut text = String::new();
        for choice in &self.choices[..self.depth] {
            let Step { object, kind } = choice.step();
            let _ = writeln!(text, "  thread {}: {kind:?} {}", choice.chosen, name(object));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the number of executions of threads that make these steps, how many of them were
    /// known before their end, and the orders in which those that were not end: of each object, the
    /// threads that have written to it, in order.
    fn executions(threads: &[&[Step]], commutes: bool) -> (usize, usize, BTreeSet<Vec<Vec<usize>>>) {
        let (mut search, mut count, mut known, mut ends) = (Search::default(), 0, 0, BTreeSet::new());
        loop {
            search.begin();
            let (mut at, mut last, mut written) = ([0; THREADS], 0, vec![Vec::new(); 4]);
            loop {
                let next = std::array::from_fn(|t| threads.get(t).and_then(|steps| steps.get(at[t]).copied()));
                let enabled = (0..THREADS).filter(|t| next[*t].is_some()).map(bit).fold(0, |set, t| set | t);
                match search.turn(next, enabled, last) {
                    Turn::Of(t) => {
                        let Step { object, kind } = threads[t][at[t]];
                        if kind == Kind::Write || !commutes {
                            written[object as usize].push(t);
                        }
                        (at[t], last) = (at[t] + 1, t);
                    }
                    Turn::Known => break known += 1,
                    end => {
                        assert_eq!(end, Turn::End);
                        ends.insert(written);
                        break;
                    }
                }
            }
            count += 1;
            if !search.go_back() {
                return (count, known, ends);
            }
        }
    }

    fn steps(kind: Kind, objects: &[u64]) -> Vec<Step> {
        objects.iter().map(|&object| Step { object, kind }).collect()
    }

    #[test]
    fn each_order_of_steps_that_do_not_commute_is_executed_once() {
        let [a, b] = [&[0, 0, 0], &[0, 0, 0]].map(|objects| steps(Kind::Write, objects));
        let (count, known, ends) = executions(&[&a, &b], true);
        assert_eq!((count - known, ends.len()), (20, 20), "6! / (3! 3!)");
        let three: Vec<_> = (0..3).map(|_| steps(Kind::Write, &[0, 0])).collect();
        let (count, known, ends) = executions(&[&three[0], &three[1], &three[2]], true);
        assert_eq!((count - known, ends.len()), (90, 90), "6! / (2! 2! 2!)");
        // Three objects, each with two orders; three threads of which each pair shares one.
        let cycle = [[0, 1], [1, 2], [2, 0]].map(|objects| steps(Kind::Write, &objects));
        let (count, known, ends) = executions(&[&cycle[0], &cycle[1], &cycle[2]], true);
        let all = all_orders(&[&cycle[0], &cycle[1], &cycle[2]]);
        assert_eq!((count - known, ends), (all.len(), all));
    }

    /// Returns the orders in which threads write to each object, by all interleavings.
    fn all_orders(threads: &[&[Step]]) -> BTreeSet<Vec<Vec<usize>>> {
        fn go(threads: &[&[Step]], at: &mut Vec<usize>, written: &mut [Vec<usize>], all: &mut BTreeSet<Vec<Vec<usize>>>) {
            let mut is_end = true;
            for t in 0..threads.len() {
                if let Some(step) = threads[t].get(at[t]) {
                    is_end = false;
                    at[t] += 1;
                    written[step.object as usize].push(t);
                    go(threads, at, written, all);
                    written[step.object as usize].pop();
                    at[t] -= 1;
                }
            }
            if is_end {
                all.insert(written.to_vec());
            }
        }
        let mut all = BTreeSet::new();
        go(threads, &mut vec![0; threads.len()], &mut vec![Vec::new(); 4], &mut all);
        all
    }

    #[test]
    fn threads_at_random_are_executed_in_all_orders_that_differ() {
        let mut random = 1;
        for _ in 0..60 {
            let mut below = |end| crate::journal::simulated::below(&mut random, end);
            let threads: Vec<Vec<Step>> =
                (0..3).map(|_| (0..1 + below(3)).map(|_| Step { object: below(3), kind: Kind::Write }).collect()).collect();
            let threads: Vec<&[Step]> = threads.iter().map(Vec::as_slice).collect();
            let (count, known, ends) = executions(&threads, true);
            assert_eq!(ends, all_orders(&threads), "{threads:?}");
            assert_eq!(count - known, ends.len(), "{threads:?}");
        }
    }

    #[test]
    fn what_commutes_is_executed_in_one_order() {
        let [a, b] = [[0, 1, 2], [0, 1, 2]].map(|objects| steps(Kind::Read, &objects));
        assert_eq!(executions(&[&a, &b], true).0, 1);
        let [a, b] = [[0, 0], [1, 1]].map(|objects| steps(Kind::Write, &objects));
        assert_eq!(executions(&[&a, &b], true).0, 1);
    }
}
