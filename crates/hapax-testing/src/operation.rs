//! Recorded operations, each with the interval in which it took effect.

use hapax::{Outcome, Timestamp};
use std::fmt;

/// The kind of an operation on an id, and its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Event {
    /// A check answered that the id is fresh.
    Fresh,
    /// A check answered that the id is a duplicate.
    Duplicate,
    /// A check gave no answer: it may have happened, at any time since it was invoked, or never.
    #[default]
    Unanswered,
    /// A check or an attempt to claim found that the id is claimed.
    InProgress,
    /// An attempt got the claim.
    Claimed,
    /// The claim's holder completed it, so that the id is remembered.
    Completed,
    /// The claim's holder released it.
    Released,
    /// The claim's holder renewed its lease, which begins anew.
    Renewed,
    /// The claim's holder wanted to end or renew it, and was told that it is no longer the holder.
    Lost,
    /// An attempt to claim found that the id is claimed or done with another fingerprint.
    Mismatch,
    /// The id was forgotten.
    Forget,
    /// The id had to go before its time, for a strategy that reports which.
    Evict,
}

impl Event {
    /// Returns the event of a check.
    pub fn of_check(answer: Option<Outcome>) -> Self {
        match answer {
            Some(Outcome::Fresh) => Event::Fresh,
            Some(Outcome::Duplicate) => Event::Duplicate,
            Some(Outcome::InProgress) => Event::InProgress,
            // The time was refused: the check has changed nothing, which is one of the
            // possibilities.
            Some(Outcome::Refused(_)) | None => Event::Unanswered,
        }
    }

    /// Returns true if it was a check, and so told the subject a time.
    pub(super) fn is_check(self) -> bool {
        matches!(self, Event::Fresh | Event::Duplicate | Event::Unanswered)
    }
}

/// The words of diagrams and of reports.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Event::Fresh => "fresh",
            Event::Duplicate => "duplicate",
            Event::Unanswered => "no answer",
            Event::InProgress => "in progress",
            Event::Claimed => "claimed",
            Event::Completed => "completed",
            Event::Released => "released",
            Event::Renewed => "renewed",
            Event::Lost => "refused",
            Event::Mismatch => "mismatch",
            Event::Forget => "forgotten",
            Event::Evict => "evicted",
        })
    }
}

/// The times of a call and of its return, in stamps: of two operations the one came before the
/// other if it had returned at a stamp smaller than that at which the other was invoked. Nothing
/// else about a stamp matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// The stamp before the call.
    pub invoked: u64,
    /// The stamp after the call; [`NEVER`](Interval::NEVER) if it gave no answer.
    pub returned: u64,
}

impl Interval {
    /// The stamp of the return of an operation without an answer.
    pub const NEVER: u64 = u64::MAX;
}

/// One operation of a thread on one id.
///
/// Fields that do not matter to a history are left to the default:
///
/// ```
/// use hapax_testing::{Event, Interval, Operation};
/// use hapax::Timestamp;
///
/// let operation = Operation {
///     id: 17,
///     at: Timestamp::from_secs(1),
///     interval: Interval { invoked: 1, returned: 2 },
///     thread: 0,
///     event: Event::Fresh,
///     ..Operation::default()
/// };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The id.
    pub id: u64,
    /// The time that the caller gave; with [`Time::Own`](crate::Time::Own), the time before the
    /// call.
    pub at: Timestamp,
    /// The time after the call. It matters with [`Time::Own`](crate::Time::Own) only, and not to a
    /// call that gave no answer, which has no end.
    pub until: Timestamp,
    /// The interval of the operation, in stamps.
    pub interval: Interval,
    /// The fencing token of a claim that was got, from 1; 0 if it has none.
    pub token: u64,
    /// The number that tells the claims of one thread apart: the same for [`Event::Claimed`] and
    /// for what its holder did with it. 0 where a thread has one claim of an id at a time.
    pub claim: u32,
    /// The number that tells the batches of one thread apart, from 1; 0 for a call of one id.
    pub batch: u32,
    /// The thread. A thread does one thing after the other.
    pub thread: u16,
    /// The kind of the operation, and its result.
    pub event: Event,
    /// The number of the fingerprint that an attempt to claim was made with, from 1; 0 if it was
    /// made without one.
    pub fingerprint: u8,
}

const _: () = assert!(size_of::<Operation>() <= 64);

impl Operation {
    /// Returns true if it may never have happened.
    pub(super) fn is_optional(&self) -> bool {
        self.interval.returned == Interval::NEVER
    }
}
