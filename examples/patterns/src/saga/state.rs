//! The states of a saga, and what follows on each answer. Pure.

use std::fmt;

/// The state of a saga: what is to be done next, or how it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The payment is to be charged.
    Charge,
    /// The pieces are to be reserved.
    Reserve,
    /// The parcel is to be shipped.
    Ship,
    /// The reservation is to be given up.
    Unreserve,
    /// The payment is to be refunded.
    Refund,
    /// It has ended: all was done.
    Done,
    /// It has ended: a step was refused, and those before it were undone.
    Undone,
}

/// A service's answer, which it keeps for the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// It is not done, and will not be.
    Refused,
}

/// A compensation that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongAnswer(pub State);

impl State {
    /// The state that a saga begins with.
    pub const FIRST: State = State::Charge;

    const ALL: [State; 7] =
        [State::Charge, State::Reserve, State::Ship, State::Unreserve, State::Refund, State::Done, State::Undone];

    /// Returns the state that follows.
    ///
    /// # Errors
    ///
    /// [`WrongAnswer`] if a compensation was refused.
    pub fn after(self, answer: Answer) -> Result<State, WrongAnswer> {
        Ok(match (self, answer) {
            (State::Charge, Answer::Done) => State::Reserve,
            (State::Reserve, Answer::Done) => State::Ship,
            (State::Ship, Answer::Done) => State::Done,
            (State::Charge, Answer::Refused) => State::Undone,
            (State::Reserve, Answer::Refused) => State::Refund,
            (State::Ship, Answer::Refused) => State::Unreserve,
            (State::Unreserve, Answer::Done) => State::Refund,
            (State::Refund, Answer::Done) => State::Undone,
            (State::Unreserve | State::Refund, Answer::Refused) => return Err(WrongAnswer(self)),
            (State::Done | State::Undone, _) => self,
        })
    }

    /// Returns its name in the database and in keys.
    pub fn name(self) -> &'static str {
        match self {
            State::Charge => "charge",
            State::Reserve => "reserve",
            State::Ship => "ship",
            State::Unreserve => "unreserve",
            State::Refund => "refund",
            State::Done => "done",
            State::Undone => "undone",
        }
    }

    /// Returns the state of this name.
    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Returns true if nothing is left to do.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Done | State::Undone)
    }
}

impl fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was refused, expected that it is done", self.0.name())
    }
}

impl std::error::Error for WrongAnswer {}
