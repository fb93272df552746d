//! The judge of the answers that callers got, each time that one of them gets one.
//!
//! Ids are independent. The history of one is right if its calls can be put in an order that
//! respects which call was over before which began, and in which a window of one id would have
//! given the same answers. A call that is under way may have happened or not. A forgetting may take
//! effect any number of times between its beginning and its end, at least once. An id may be lost
//! at any time, if that was counted before the answer that it excuses.
//!
//! A check that has inserted its id into a table which is not the newest any more is seen by others
//! before it is decided. If the id is then forgotten, it may accept it once more; but no caller,
//! itself included, is told Duplicate because of it unless it is told Fresh, or the id was
//! forgotten.

use super::scenario::{Id, Op, Scenario};
use std::collections::HashSet;

/// A call, and its answer.
#[derive(Clone, Debug)]
struct Call {
    op: Op,
    /// The calls that were over before this one began, as far as its caller can know: a set, by
    /// number.
    before: u64,
    /// The ticks at which it may have happened: its own, or that of a call which began before this
    /// one was over.
    ticks: Vec<u64>,
    /// The answer: of a check, whether it was fresh; of a look, whether it found nothing.
    answer: Option<bool>,
    is_over: bool,
}

/// All calls of an execution.
#[derive(Debug)]
pub(crate) struct History {
    window_ticks: u64,
    scenario: Scenario,
    calls: Vec<Call>,
    /// True if a table may have been started.
    switches: bool,
    /// The number of evictions that it takes to explain the answers of each id.
    excused: Vec<(Id, u64)>,
}

impl History {
    pub(crate) fn new(window_ticks: u64, scenario: Scenario) -> Self {
        History { window_ticks, scenario, calls: Vec::new(), switches: false, excused: Vec::new() }
    }

    /// Begins a call. Returns its number.
    pub(crate) fn begin(&mut self, op: Op, before: u64) -> usize {
        assert!(self.calls.len() < 64, "numbers of calls are bits of a word");
        self.switches |= matches!(op, Op::Start(..));
        self.calls.push(Call { op, before, ticks: Vec::new(), answer: None, is_over: false });
        self.calls.len() - 1
    }

    /// Returns the calls that are over.
    pub(crate) fn over(&self) -> u64 {
        self.calls.iter().enumerate().fold(0, |set, (i, call)| set | u64::from(call.is_over) << i)
    }

    /// Ends a call, until which this many evictions have been counted. Fails with what is wrong, if
    /// anything.
    pub(crate) fn end(&mut self, number: usize, answer: Option<bool>, evicted: u64) -> Result<(), String> {
        let ticks = self.ticks(number);
        let call = &mut self.calls[number];
        (call.ticks, call.answer, call.is_over) = (ticks, answer, true);
        let Some(id) = call.op.id() else { return Ok(()) };
        // Entries that go with a table before their time are counted when the retirement is over.
        let retiring = self.calls.iter().filter(|call| call.op == Op::RetireEarly && !call.is_over).count();
        let evicted = evicted + retiring as u64;
        let others: u64 = self.excused.iter().filter(|(other, _)| *other != id).map(|(_, n)| n).sum();
        let Some(needed) = (0..=evicted.saturating_sub(others)).find(|&n| self.is_right(id, n)) else {
            return Err(format!("{id:?}, {evicted} evicted: {:#?}", self.calls));
        };
        self.excused.retain(|(other, _)| *other != id);
        self.excused.push((id, needed));
        Ok(())
    }

    /// Returns the ticks at which a call may have happened.
    fn ticks(&self, number: usize) -> Vec<u64> {
        let call = &self.calls[number];
        let known = self.calls.iter().enumerate().filter(|(i, _)| call.before >> i & 1 == 1);
        let earliest = known.filter_map(|(_, known)| known.op.now()).chain(call.op.now()).max();
        let begun = self.calls.iter().filter_map(|call| call.op.now());
        let mut ticks: Vec<u64> = begun.filter(|now| Some(*now) >= earliest).collect();
        ticks.sort_unstable();
        ticks.dedup();
        ticks
    }

    /// Returns true if the answers for an id are right if it was lost at most this many times.
    fn is_right(&self, id: Id, lost: u64) -> bool {
        let mut calls: Vec<(usize, Call)> = Vec::new();
        for (i, call) in self.calls.iter().enumerate().filter(|(_, call)| call.op.concerns(id)) {
            let mut call = call.clone();
            if !call.is_over {
                call.ticks = self.ticks(i);
            }
            calls.push((i, call));
        }
        let all = calls.iter().fold(0, |set, (i, _)| set | 1 << i);
        let mut search = Search { calls: &calls, all, history: self, seen: HashSet::new() };
        search.can_go_on(State { done: 0, accepted: None, lost })
    }
}

/// A state of a window of one id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    /// The calls that have happened.
    done: u64,
    /// The tick at which the id was accepted last, and the call that did.
    accepted: Option<(u64, usize)>,
    /// The number of times that it may yet be lost.
    lost: u64,
}

struct Search<'a> {
    calls: &'a [(usize, Call)],
    all: u64,
    history: &'a History,
    seen: HashSet<State>,
}

impl Search<'_> {
    /// Returns true if the calls that are over can all happen, from here.
    fn can_go_on(&mut self, state: State) -> bool {
        if self.calls.iter().all(|(i, call)| !call.is_over || state.done >> i & 1 == 1) {
            return true;
        }
        if !self.seen.insert(state) {
            return false;
        }
        if state.lost > 0 && state.accepted.is_some() {
            let lost = State { accepted: None, lost: state.lost - 1, ..state };
            if self.can_go_on(lost) {
                return true;
            }
        }
        let calls = self.calls;
        let undone = self.all & !state.done;
        calls
            .iter()
            .any(|(i, call)| undone >> i & 1 == 1 && call.before & undone == 0 && self.can_happen(*i, call, state))
    }

    fn can_happen(&mut self, number: usize, call: &Call, state: State) -> bool {
        let scenario = &self.history.scenario;
        let done = State { done: state.done | 1 << number, ..state };
        match call.op {
            Op::Forget(..) | Op::ForgetAll(_) => {
                self.can_go_on(State { accepted: None, ..state }) || self.can_go_on(State { accepted: None, ..done })
            }
            Op::Check(..) | Op::Look(..) => call.ticks.iter().any(|&now| {
                let stamp = now + scenario.ahead;
                let age_ticks = |accepted: u64| now.saturating_sub(accepted);
                let live = state.accepted.filter(|(at, _)| age_ticks(*at) < self.history.window_ticks);
                let checks = matches!(call.op, Op::Check(..));
                let seen_early = State { accepted: Some((stamp, number)), ..state };
                if checks && live.is_none() && self.history.switches && self.can_go_on(seen_early) {
                    return true;
                }
                let mine = live.is_some_and(|(_, by)| by == number);
                let fresh = live.is_none() || mine;
                if call.answer.is_some_and(|answer| answer != fresh) {
                    return false;
                }
                let accepted = match live {
                    None if checks => Some((stamp, number)),
                    Some((at, by)) if checks && scenario.refresh => Some((at.max(stamp), by)),
                    _ => state.accepted,
                };
                self.can_go_on(State { accepted, ..done })
            }),
            Op::CheckBoth(..) | Op::Start(..) | Op::Retire | Op::RetireEarly => unreachable!("concerns no id"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::Op::{Check, Forget};
    use super::super::scenario::scenario;
    use super::*;

    const X: Id = 1;

    /// Judges calls in order, none at the same time as another, with the number of evictions that
    /// were counted by the end of each.
    fn judge(refresh: bool, calls: &[(Op, Option<bool>, u64)]) -> bool {
        let mut history = History::new(4, Scenario { refresh, ..scenario(&[], &[]) });
        calls.iter().all(|&(op, answer, evicted)| {
            let number = history.begin(op, history.over());
            history.end(number, answer, evicted).is_ok()
        })
    }

    #[test]
    fn one_after_the_other() {
        let (fresh, duplicate) = (Some(true), Some(false));
        assert!(judge(false, &[(Check(X, 1), fresh, 0), (Check(X, 4), duplicate, 0), (Check(X, 5), fresh, 0)]));
        assert!(judge(true, &[(Check(X, 1), fresh, 0), (Check(X, 4), duplicate, 0), (Check(X, 5), duplicate, 0)]));
        assert!(!judge(false, &[(Check(X, 1), duplicate, 0)]));
        assert!(!judge(false, &[(Check(X, 1), fresh, 0), (Check(X, 4), fresh, 0)]));
        assert!(!judge(false, &[(Check(X, 1), fresh, 0), (Check(X, 5), duplicate, 0)]));
        assert!(judge(false, &[(Check(X, 1), fresh, 0), (Check(X, 4), fresh, 1)]));
        assert!(judge(false, &[(Check(X, 1), fresh, 0), (Forget(X, 1), None, 0), (Check(X, 1), fresh, 0)]));
        assert!(!judge(false, &[(Check(X, 1), fresh, 0), (Forget(X, 1), None, 0), (Check(X, 1), duplicate, 0)]));
    }

    #[test]
    fn a_later_eviction_excuses_nothing_and_an_eviction_excuses_one_answer() {
        let (fresh, duplicate) = (Some(true), Some(false));
        assert!(!judge(false, &[(Check(X, 1), fresh, 0), (Check(X, 1), fresh, 0), (Check(X, 1), duplicate, 1)]));
        assert!(!judge(false, &[(Check(X, 1), fresh, 0), (Check(X, 1), fresh, 1), (Check(X, 1), fresh, 1)]));
        let other = X + 1;
        let both = [(Check(X, 1), fresh, 0), (Check(other, 1), fresh, 0), (Check(X, 1), fresh, 1)];
        assert!(judge(false, &both));
        assert!(!judge(false, &[&both[..], &[(Check(other, 1), fresh, 1)]].concat()));
    }

    #[test]
    fn calls_at_the_same_time() {
        let history = |answers: [bool; 2], second_begins_later: bool| {
            let mut history = History::new(4, scenario(&[], &[]));
            let calls = [(); 2].map(|()| history.begin(Check(X, 1), 0));
            if second_begins_later {
                history.calls[1].before = 1;
            }
            calls.into_iter().zip(answers).try_for_each(|(call, answer)| history.end(call, Some(answer), 0)).is_ok()
        };
        // The other one may yet be told that it is fresh, if it has begun.
        assert!(history([false, true], false));
        assert!(history([true, false], true));
        assert!(!history([false, true], true));
        assert!(!history([true, true], false));
        assert!(!history([false, false], false));
    }
}
