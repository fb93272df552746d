//! A run of a scenario on a shard, as the engine would do it.

use super::super::Claims;
use super::super::done::DoneIds;
use super::super::map::{Begun, Ended, Request};
use super::judge::{Answer, History};
use super::{Op, Scenario};
use crate::digest::Digest;
use crate::sync::{AtomicU64, Ordering, complete_seq_cst, model};
use crate::{Outcome, Timestamp};
use std::sync::{Arc, Mutex};

const ID: Digest = Digest { place: 1 << 60, mark: 5 << 20 };

/// A window for one id.
struct Mark(AtomicU64);

impl DoneIds for Mark {
    fn contains(&self, _id: Digest) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }

    fn insert(&self, id: Digest) -> bool {
        // A duplicate writes nothing.
        let is_new = !self.contains(id) && self.0.fetch_or(1, Ordering::SeqCst) == 0;
        complete_seq_cst();
        is_new
    }

    /// Returns a fixed time: everything happens within a window.
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(0)
    }

    fn until(&self) -> Timestamp {
        Timestamp::from_nanos(1)
    }

    /// Forgets; an insertion by another caller before this call is over may go as well.
    fn forget(&self, _id: Digest) {
        self.0.fetch_and(0, Ordering::AcqRel);
        self.0.fetch_and(0, Ordering::AcqRel);
    }
}

struct World {
    claims: Claims,
    mark: Mark,
    /// The record of all calls. It is no part of the model: no thread waits for it, and it orders
    /// nothing.
    history: Mutex<History>,
}

/// A caller, and what it knows.
#[derive(Clone, Copy, Default)]
struct Caller {
    /// The calls that it knows to be over: a set, by number.
    known: u64,
    token: Option<u64>,
}

/// Runs a scenario once. Panics if no order explains what callers were told.
pub(super) fn run(scenario: &'static Scenario) {
    let mark = Mark(AtomicU64::new(0));
    let world = Arc::new(World { claims: Claims::new(), mark, history: Mutex::default() });
    let caller = world.call_all(scenario.first, Caller::default());
    let thread = |ops: &&'static [Op]| {
        let (ops, world) = (*ops, world.clone());
        Box::new(move || {
            world.call_all(ops, caller);
        }) as Box<dyn FnOnce() + Send>
    };
    model::run_at_once(scenario.threads.iter().map(thread).collect());
    let known = world.history.lock().unwrap().over();
    world.call_all(scenario.last, Caller { known, ..caller });
    world.history.lock().unwrap().judge();
}

impl World {
    /// Makes calls, one after another.
    fn call_all(&self, ops: &[Op], caller: Caller) -> Caller {
        ops.iter().fold(caller, |caller, op| self.call(*op, caller))
    }

    fn call(&self, op: Op, caller: Caller) -> Caller {
        let number = {
            let mut history = self.history.lock().unwrap();
            // "Later" means nothing; only what happened before does.
            history.begin(op, caller.known)
        };
        let answer = self.answer(op, caller.token);
        self.history.lock().unwrap().end(number, answer);
        let token = match answer {
            Answer::Claimed(token) => Some(token),
            _ => caller.token,
        };
        Caller { known: caller.known | 1 << number, token }
    }

    fn answer(&self, op: Op, token: Option<u64>) -> Answer {
        let (claims, mark, at) = (&self.claims, &self.mark, Timestamp::from_nanos);
        let ended = |end: &dyn Fn(u64) -> Ended| match token {
            Some(token) if end(token) == Ended::Held => Answer::Held(token),
            Some(token) => Answer::Lost(token),
            None => Answer::Skipped,
        };
        match op {
            Op::Check(now) => self.check(at(now)),
            Op::Claim(now, until) => {
                let request = Request { id: ID, with_fingerprint: None, now: at(now), until: at(until) };
                match claims.claim(&request, mark, || mark.contains(ID)) {
                    Begun::Claimed(token) => Answer::Claimed(token),
                    Begun::InProgress(_) => Answer::InProgress,
                    Begun::Done => Answer::Duplicate,
                    other => unreachable!("{other:?}"),
                }
            }
            Op::Complete => ended(&|token| claims.complete(ID, token, mark)),
            Op::Release => ended(&|token| claims.release(ID, token)),
            Op::Renew(until) => ended(&|token| claims.extend(ID, token, at(until), false)),
            Op::Fail(until) => ended(&|token| claims.extend(ID, token, at(until), true)),
            Op::Forget(now) if claims.forget(ID, mark, at(now)) => Answer::Forgotten,
            Op::Forget(_) => Answer::InProgress,
        }
    }

    /// Checks the id as `Engine::decide` does.
    fn check(&self, now: Timestamp) -> Answer {
        let outcome = if self.mark.insert(ID) { Outcome::Fresh } else { Outcome::Duplicate };
        let outcome =
            if self.claims.are_used() { self.claims.confirm(ID, outcome, &self.mark, || now) } else { outcome };
        match outcome {
            Outcome::Fresh => Answer::Fresh,
            Outcome::Duplicate => Answer::Duplicate,
            Outcome::InProgress => Answer::InProgress,
            Outcome::Refused(_) => unreachable!("nobody gives a time"),
        }
    }
}
