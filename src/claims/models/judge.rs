//! The judge of the answers that callers got. It looks for an order of their calls that respects
//! which call was over before which began, and in which callers that come one after the other would
//! have got the same answers.
//!
//! An id that is done while it is being forgotten may be forgotten, too: a forgetting takes effect
//! at least once between its beginning and its end. And a check that finds the id in progress may
//! have accepted it before, if it was forgotten since and then claimed (docs/design/claims.md).

use super::Op;

/// The answer that a caller got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Fresh,
    Duplicate,
    InProgress,
    Claimed(u64),
    /// The token of the caller's claim held; or was lost.
    Held(u64),
    Lost(u64),
    Forgotten,
    /// The caller had no claim, and did nothing.
    Skipped,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    op: Op,
    /// The calls that were over before this one began, as far as its caller can know: a set, by
    /// number.
    before: u64,
    /// The answer; none as long as the call is under way.
    answer: Option<Answer>,
}

/// All calls of an execution.
#[derive(Debug, Default)]
pub(super) struct History(Vec<Call>);

/// The state of the id. Everything happens within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Done,
    Claimed {
        token: u64,
        until: u64,
    },
    /// The id rests after a failure.
    Failed {
        until: u64,
    },
}

impl State {
    fn is_taken(self, now: u64) -> bool {
        matches!(self, State::Claimed { until, .. } | State::Failed { until } if now < until)
    }

    /// Returns the state after a call, if this answer to it is right.
    fn after(self, op: Op, answer: Answer) -> Option<State> {
        let is_taken = |now| self.is_taken(now);
        let can_have = |now| self != State::Done && !is_taken(now);
        let is_of = |token: u64| matches!(self, State::Claimed { token: held, .. } if held == token);
        let (is_right, next) = match (op, answer) {
            (_, Answer::Skipped) => (true, self),
            (_, Answer::Lost(token)) => (!is_of(token), self),
            (Op::Check(_) | Op::Claim(..), Answer::Duplicate) => (self == State::Done, self),
            (Op::Check(now) | Op::Claim(now, _), Answer::InProgress) => (is_taken(now), self),
            // Or a check that is not over has accepted it.
            (Op::Forget(now), Answer::InProgress) => (is_taken(now) || self == State::Done, self),
            (Op::Check(now), Answer::Fresh) => (can_have(now), State::Done),
            (Op::Claim(now, until), Answer::Claimed(token)) => (can_have(now), State::Claimed { token, until }),
            (Op::Complete, Answer::Held(token)) => (is_of(token), State::Done),
            (Op::Release, Answer::Held(token)) => (is_of(token), State::Free),
            (Op::Renew(until), Answer::Held(token)) => (is_of(token), State::Claimed { token, until }),
            (Op::Fail(until), Answer::Held(token)) => (is_of(token), State::Failed { until }),
            (Op::Forget(now), Answer::Forgotten) => (!is_taken(now), State::Free),
            _ => (false, self),
        };
        is_right.then_some(next)
    }
}

impl History {
    /// Begins a call. Returns its number.
    pub(super) fn begin(&mut self, op: Op, before: u64) -> usize {
        self.0.push(Call { op, before, answer: None });
        self.0.len() - 1
    }

    pub(super) fn end(&mut self, number: usize, answer: Answer) {
        self.0[number].answer = Some(answer);
    }

    /// Returns the calls that are over.
    pub(super) fn over(&self) -> u64 {
        self.0.iter().enumerate().fold(0, |set, (i, call)| set | u64::from(call.answer.is_some()) << i)
    }

    /// Panics if there is no such order. All calls must be over.
    pub(super) fn judge(&self) {
        assert!(self.explains_rest(0, 0, State::Free), "in no order are these answers right: {:?}", self.0);
    }

    /// Returns true if the remaining calls can follow when the calls in `done` have happened, and
    /// those in `begun` have accepted the id.
    fn explains_rest(&self, done: u64, begun: u64, state: State) -> bool {
        let all = (1 << self.0.len()) - 1;
        let forgets_again = state == State::Done && self.is_forgetting(done);
        done == all
            || (forgets_again && self.explains_rest(done, begun, State::Free))
            || self.0.iter().enumerate().any(|(i, call)| {
                let may_be_next = done >> i & 1 == 0 && call.before & !done == 0;
                let next = |answer| state.after(call.op, answer);
                let accepts = || match (call.op, call.answer) {
                    (Op::Check(_), Some(Answer::InProgress)) if begun >> i & 1 == 0 => next(Answer::Fresh),
                    _ => None,
                };
                may_be_next
                    && (call.answer.and_then(next).is_some_and(|next| self.explains_rest(done | 1 << i, begun, next))
                        || accepts().is_some_and(|next| self.explains_rest(done, begun | 1 << i, next)))
            })
    }

    /// Returns true if a forgetting has happened, and no call that began after it.
    fn is_forgetting(&self, done: u64) -> bool {
        let followed = |i: usize| self.0.iter().enumerate().any(|(j, call)| done >> j & call.before >> i & 1 == 1);
        let forgets =
            |(i, call): (usize, &Call)| done >> i & 1 == 1 && call.answer == Some(Answer::Forgotten) && !followed(i);
        self.0.iter().enumerate().any(forgets)
    }
}
