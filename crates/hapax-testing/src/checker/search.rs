//! The search for an order of one id's operations that explains all answers.
//!
//! Operations are looked at in the order in which they were invoked. An operation must have
//! happened only when it has returned. Then every way is tried in which it can have happened, and
//! before it any of the operations that had been invoked by then (Lowe's "just-in-time" form of the
//! search by Wing and Gong). Between returns, the search keeps a set of [`Configuration`]s: the
//! possible ones, each once.

use super::frontier::{Configuration, Frontier};
use super::state::{Act, Effective, Specification, State};
use crate::operation::Event;

/// An operation on the id, as far as the search needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
    pub(crate) effective: Effective,
    pub(crate) act: Act,
    /// True if it may never have happened.
    pub(crate) optional: bool,
    /// True if it stands for any number of such operations.
    pub(crate) endless: bool,
}

/// An operation that was invoked and has not returned, at the bit of its index.
#[derive(Clone, Copy, Debug)]
struct Pending {
    step: Step,
    /// The operations that the same thread had to do before.
    after: u128,
}

/// The reason for which a search has ended without an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// There is no order in which this one, or any other that may have come first, is right.
    NoOrder(Step),
    /// There are too many to try.
    TooMany,
}

/// The largest number of configurations that are tried for one return, if few were for those before
/// it; and what each return adds to the number that may be tried.
const CONFIGURATIONS_MAX: usize = 40_000;
const CONFIGURATIONS_A_RETURN: usize = 1_000;

/// The largest number of operations on one id that may never have happened and are kept apart: of
/// more, it is not known how many happen.
const OPTIONAL_MAX: u32 = 8;

/// The search over the operations on one id so far.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    configurations: Vec<Configuration>,
    pending: [Option<Pending>; u128::BITS as usize],
    /// The bits of pending operations, and of those among them that may never happen.
    pending_bits: u128,
    optional_bits: u128,
    evictions_allowed: bool,
    frontier: Frontier,
    /// The number of configurations that may be tried.
    budget: usize,
}

/// The result of one id's search that later operations begin with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remainder {
    pub(crate) configurations: Vec<Configuration>,
    pub(crate) optional: Vec<Step>,
}

impl Search {
    pub(crate) fn new(evictions_allowed: bool) -> Self {
        Search {
            configurations: Vec::new(),
            pending: [None; u128::BITS as usize],
            pending_bits: 0,
            optional_bits: 0,
            evictions_allowed,
            frontier: Frontier::default(),
            budget: CONFIGURATIONS_MAX,
        }
    }

    /// Starts with another id, where an earlier search for it has ended.
    pub(crate) fn start(&mut self, remainder: Option<&Remainder>) -> Result<(), Failed> {
        self.configurations.clear();
        self.budget = CONFIGURATIONS_MAX;
        self.pending_bits = 0;
        self.optional_bits = 0;
        match remainder {
            None => self.configurations.push(Configuration { state: State::Unknown, done: 0, evictions: 0 }),
            Some(remainder) => {
                remainder.optional.iter().try_for_each(|&step| self.invoke(step))?;
                self.configurations.extend_from_slice(&remainder.configurations);
            }
        }
        Ok(())
    }

    /// Returns the possible configurations. They are complete only if nothing is under way.
    pub(crate) fn configurations(&self) -> &[Configuration] {
        &self.configurations
    }

    /// Returns true if everything that was invoked has returned, except operations that may never
    /// return.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending_bits == self.optional_bits
    }

    /// Returns true if there are operations that may never return.
    pub(crate) fn has_optional(&self) -> bool {
        self.optional_bits != 0
    }

    /// Returns the operations of other threads that are under way.
    pub(crate) fn others(&self, thread: u16) -> impl Iterator<Item = Act> {
        let acts = bits(self.pending_bits & !self.optional_bits).filter_map(|i| self.pending[i]);
        acts.map(|pending| pending.step.act).filter(move |act| act.thread != thread)
    }

    /// Takes an operation that no other overlaps, as for most of them.
    pub(crate) fn alone(&mut self, spec: &Specification, step: &Step) -> Result<(), Failed> {
        if let [one] = &mut self.configurations[..]
            && self.pending_bits == 0
            && !step.optional
        {
            let next = spec.next(one.state, step.act, step.effective);
            if let (Some(state), None) = (next.state, next.evicted.filter(|_| self.evictions_allowed)) {
                one.state = state;
                return Ok(());
            }
        }
        self.invoke(*step)
    }

    /// Begins an operation.
    pub(crate) fn invoke(&mut self, step: Step) -> Result<(), Failed> {
        if step.optional && self.optional_bits.count_ones() >= OPTIONAL_MAX && self.join(step) {
            return Ok(());
        }
        let bit = (!self.pending_bits).trailing_zeros();
        if bit == u128::BITS {
            return Err(Failed::TooMany);
        }
        let after = bits(self.pending_bits & !self.optional_bits)
            .filter(|&i| self.pending[i].is_some_and(|pending| pending.step.act.thread == step.act.thread))
            .fold(0, |after, i| after | 1 << i);
        self.pending[bit as usize] = Some(Pending { step, after });
        self.pending_bits |= 1 << bit;
        self.optional_bits |= u128::from(step.optional) << bit;
        Ok(())
    }

    /// Makes another operation stand for this one as well. Returns true if there is one.
    fn join(&mut self, step: Step) -> bool {
        let alike = |i: &usize| self.pending[*i].is_some_and(|pending| pending.step.act.event == step.act.event);
        let Some(i) = bits(self.optional_bits).find(alike) else {
            return false;
        };
        if let Some(Pending { step: other, .. }) = &mut self.pending[i] {
            let earliest = other.effective.earliest.min(step.effective.earliest);
            let latest = other.effective.latest.max(step.effective.latest);
            *other = Step { effective: Effective { earliest, latest }, endless: true, ..*other };
        }
        self.configurations.iter_mut().for_each(|configuration| configuration.done &= !(1 << i));
        true
    }

    /// Ends all operations that return before a stamp.
    pub(crate) fn catch_up(&mut self, spec: &Specification, before: u64) -> Result<(), Failed> {
        loop {
            // Of one thread's operations, the earlier one first.
            let returned =
                |i: usize| self.pending[i].map_or((u64::MAX, 0), |p| (p.step.returned, p.after.count_ones()));
            let first = bits(self.pending_bits & !self.optional_bits).min_by_key(|&i| returned(i));
            match first {
                Some(i) if returned(i).0 < before => self.settle(spec, i)?,
                _ => return Ok(()),
            }
        }
    }

    /// Ends an operation that returns: it has happened.
    fn settle(&mut self, spec: &Specification, index: usize) -> Result<(), Failed> {
        let bit = 1 << index;
        // An operation that has not returned, but happened before this one, took no later time than
        // this one may have.
        let latest = self.pending[index].map_or(u64::MAX, |pending| pending.step.effective.latest);
        self.frontier.start(&mut self.configurations);
        while let Some(from) = self.frontier.next() {
            if from.done & bit != 0 {
                self.configurations.push(Configuration { done: from.done & !bit, ..from });
                // An operation that may happen again may do so until it returns, after any
                // operation meanwhile.
                if !self.is_repeatable(spec, from.done, index) {
                    continue;
                }
            }
            self.step_from(spec, from, latest);
            if self.frontier.tried() > self.budget {
                return Err(Failed::TooMany);
            }
        }
        self.budget = CONFIGURATIONS_MAX.min(self.budget - self.frontier.tried() + CONFIGURATIONS_A_RETURN);
        let settled = self.pending[index].map(|pending| pending.step);
        self.pending_bits &= !bit;
        for i in bits(self.pending_bits) {
            if let Some(pending) = &mut self.pending[i] {
                pending.after &= !bit;
            }
        }
        prune(&mut self.configurations, self.optional_bits);
        match settled {
            Some(step) if self.configurations.is_empty() => Err(Failed::NoOrder(step)),
            _ => Ok(()),
        }
    }

    /// Takes each operation that can happen next.
    fn step_from(&mut self, spec: &Specification, from: Configuration, latest: u64) {
        let next = |i: usize| -> Option<_> {
            let Pending { step, after } = self.pending[i]?;
            // A thread's operations happen in its order.
            let next = || spec.next(from.state, step.act, step.effective.until(latest));
            (after & !from.done == 0).then(|| (step, next()))
        };
        let open = self.pending_bits & !from.done;
        // An operation that never changes anything may go first: from any other place in an order,
        // it can be taken away and put here. The exception: its thread then cannot forget again an
        // id that it is forgetting. But it can if this is what it does: who forgets an unknown id
        // has changed nothing, and may do so again.
        let is_of = |i: usize, event: Event| self.pending[i].is_some_and(|pending| pending.step.act.event == event);
        let may_go_first = |i: usize| {
            let after = self.pending[i].map_or(0, |pending| pending.after);
            !spec.refreshes() && !bits(after).any(|before| is_of(before, Event::Forget))
        };
        let is_only_look = |event| is_look(event) && !may_accept_before(spec, event);
        let is_forgetting = |event| event == Event::Forget && spec.forgets_meanwhile();
        let idle = bits(open & !self.optional_bits).find(|&i| {
            next(i).is_some_and(|(step, next)| {
                let event = step.act.event;
                next.state == Some(from.state) && (is_forgetting(event) || is_only_look(event) && may_go_first(i))
            })
        });
        if let Some(i) = idle {
            self.frontier.add(Configuration { done: from.done | 1 << i, ..from });
            return;
        }
        let again = bits(self.pending_bits & from.done).filter(|&i| self.is_repeatable(spec, from.done, i));
        let again = again.fold(0, |again, i| again | 1 << i);
        for i in bits(open | again) {
            let Some((step, next)) = next(i) else { continue };
            let done = from.done | u128::from(!step.endless) << i;
            // (What happens again needs no eviction: there would be no end of them.)
            let evicted = next.evicted.filter(|_| self.evictions_allowed && open >> i & 1 != 0);
            let regular = next.state.map(|state| Configuration { state, done, evictions: from.evictions });
            let evicted = evicted.map(|state| Configuration { state, done, evictions: from.evictions + 1 });
            let before = may_accept_before(spec, step.act.event)
                .then(|| spec.next(from.state, Act { event: Event::Fresh, ..step.act }, step.effective.until(latest)));
            let before = before.and_then(|next| next.state).map(|state| Configuration { state, ..from });
            for to in regular.into_iter().chain(evicted).chain(before) {
                self.frontier.add(to);
            }
        }
    }

    /// Returns true if an operation that has happened may happen again: forgetting, unless its
    /// thread has gone on, and a check that has found the id fresh.
    fn is_repeatable(&self, spec: &Specification, done: u128, index: usize) -> bool {
        let is_followed = |j: usize| self.pending[j].is_some_and(|pending| pending.after >> index & 1 != 0);
        match self.pending[index].map(|pending| pending.step.act.event) {
            Some(Event::Forget) => spec.forgets_meanwhile() && !bits(self.pending_bits & done).any(is_followed),
            // (Its thread may have gone on, in the same batch.)
            Some(Event::Fresh) => spec.accepts_meanwhile(),
            _ => false,
        }
    }

    /// Ends the search for this id: returns the state for later operations, and the number of
    /// evictions so far.
    pub(crate) fn finish(&mut self, spec: &Specification, now: u64) -> (Option<Remainder>, u32) {
        let evictions = self.configurations.iter().map(|c| c.evictions).min().unwrap_or(0);
        if self.optional_bits == 0 && self.configurations.iter().all(|c| spec.is_over(c.state, now)) {
            return (None, evictions);
        }
        // The remaining optional operations get new bits, in order.
        let done = self.configurations.iter().fold(!0, |done, c| done & c.done);
        let left: Vec<_> = bits(self.optional_bits & !done).collect();
        let renumber = |done: u128| left.iter().enumerate().fold(0, |bits, (to, from)| bits | (done >> from & 1) << to);
        let configurations = self.configurations.iter().map(|c| Configuration {
            done: renumber(c.done),
            evictions: c.evictions - evictions,
            ..*c
        });
        let configurations = configurations.collect();
        let optional = left.iter().filter_map(|&i| self.pending[i].map(|pending| pending.step)).collect();
        (Some(Remainder { configurations, optional }), evictions)
    }
}

/// Returns true if a check that gives this answer may have accepted the id before that: somebody
/// forgot it, and somebody else claimed it.
fn may_accept_before(spec: &Specification, event: Event) -> bool {
    spec.accepts_meanwhile() && event == Event::InProgress
}

/// Returns true for an answer that changes nothing.
fn is_look(event: Event) -> bool {
    matches!(event, Event::Duplicate | Event::InProgress | Event::Mismatch | Event::Lost)
}

/// Drops a configuration if another one covers it, took no more evictions, and took no operation
/// that may never have happened besides those that this one took as well.
fn prune(configurations: &mut Vec<Configuration>, optional: u128) {
    // This many are rare, and comparing them all would take longer than to go on with them.
    if configurations.len() > 64 {
        return;
    }
    let covers = |one: &Configuration, other: &Configuration| {
        let done = one.done & !other.done == 0 && (one.done ^ other.done) & !optional == 0;
        done && one.evictions <= other.evictions && one.state.covers(other.state)
    };
    let mut i = 0;
    while i < configurations.len() {
        let this = configurations[i];
        // Of two equal ones the first stays.
        let is_covered =
            |(j, other): (usize, &Configuration)| j != i && covers(other, &this) && (*other != this || j < i);
        if configurations.iter().enumerate().any(is_covered) {
            configurations.swap_remove(i);
        } else {
            i += 1;
        }
    }
}

/// Returns the members of a set.
fn bits(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let i = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            i
        })
    })
}
