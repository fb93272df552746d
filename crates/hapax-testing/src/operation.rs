//! What is recorded: operations, each with the interval in which it took effect.

use hapax::{Outcome, Timestamp};

/// What was done to an id, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A check answered that the id is fresh.
    Fresh,
    /// A check answered that the id is a duplicate.
    Duplicate,
    /// A check gave no answer: it may have happened, at any time since it was invoked, or never.
    Unanswered,
    /// A check or an attempt to claim found that the id is claimed.
    InProgress,
    /// An attempt got the claim.
    Claimed,
    /// The claim's holder completed it, so that the id is remembered.
    Completed,
    /// The claim's holder released it.
    Released,
    /// The id was forgotten.
    Forget,
    /// The id had to go before its time, for a strategy that says which.
    Evict,
}

impl Event {
    /// The event that a check was.
    pub fn of_check(answer: Option<Outcome>) -> Self {
        match answer {
            Some(Outcome::Fresh) => Event::Fresh,
            Some(Outcome::Duplicate) => Event::Duplicate,
            Some(Outcome::InProgress) => Event::InProgress,
            // Not taken: it has changed nothing, as that may have, too.
            Some(Outcome::Refused(_)) | None => Event::Unanswered,
        }
    }

    /// Whether it was a check, and so told the subject a time.
    pub(super) fn is_check(self) -> bool {
        matches!(self, Event::Fresh | Event::Duplicate | Event::Unanswered)
    }
}

/// When something was called and when it returned, in stamps: of two operations the one came before the other if it had returned at a
/// stamp smaller than that at which the other was invoked. What a stamp is does not matter otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Taken before the call.
    pub invoked: u64,
    /// Taken after the call; [`NEVER`](Interval::NEVER) if it gave no answer.
    pub returned: u64,
}

impl Interval {
    /// When an operation without an answer returned.
    pub const NEVER: u64 = u64::MAX;
}

/// One operation of a thread on one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// On which id.
    pub id: u64,
    /// The time that the caller gave.
    pub at: Timestamp,
    /// When that was, in stamps.
    pub interval: Interval,
    /// By which thread. A thread does one thing after the other.
    pub thread: u16,
    /// What it was.
    pub event: Event,
}

const _: () = assert!(size_of::<Operation>() <= 40);

impl Operation {
    /// Whether it may never have happened.
    pub(super) fn is_optional(&self) -> bool {
        self.interval.returned == Interval::NEVER
    }
}
