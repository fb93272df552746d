//! The names of what can be wrong with a subject.

use std::fmt;
use std::time::Duration;

/// The way in which a subject is wrong, as its answers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Two overlapping calls were both told that the id is theirs.
    TwoFresh,
    /// An id was fresh again before its window was over.
    ForgottenEarly {
        /// The time that was missing, at least.
        by: Duration,
        /// The window.
        of: Duration,
    },
    /// An id was a duplicate after its window, and after the slack.
    RememberedTooLong {
        /// The time since the window's end, at least.
        by: Duration,
        /// The window.
        of: Duration,
    },
    /// A batch had an id twice, and both were fresh.
    LostInBatch,
    /// An id was a duplicate, and nobody had been told that it was fresh.
    FreshToNobody,
    /// An id was a duplicate after it was forgotten.
    NotForgotten,
    /// An id was a duplicate after its claim was released.
    NotReleased,
    /// An id was accepted while a call was forgetting it, and was fresh again.
    ForgottenMeanwhile,
    /// An id in progress was given to another caller.
    TakenWhileClaimed,
    /// An id in progress was given to another caller before its lease was over.
    TakenOverEarly {
        /// The time that was missing, at least.
        by: Duration,
        /// The lease.
        of: Duration,
    },
    /// A lease kept others out after its end, and after the slack.
    KeptTooLong {
        /// The time since the lease's end, at least.
        by: Duration,
        /// The lease.
        of: Duration,
    },
    /// An id that was only claimed was called a duplicate.
    DuplicateInProgress,
    /// An id was called in progress, and nobody had claimed it.
    InProgressForNobody,
    /// A claim was ended or renewed by a holder to whom it no longer belonged.
    LateHolder,
    /// A holder was refused, though the claim was its own.
    HolderRefused,
    /// An id was forgotten while it was claimed.
    ForgottenWhileClaimed,
    /// A mismatch was reported, and no other fingerprint was known.
    FalseMismatch,
    /// Two claims of one id got the same fencing token.
    TokenGivenTwice {
        /// The token.
        token: u64,
    },
    /// A claim got a smaller fencing token than an earlier claim of the same id.
    TokenTooSmall {
        /// The token.
        token: u64,
        /// The larger token of an earlier claim.
        earlier: u64,
    },
    /// More answers are fresh without reason than evictions were counted.
    TooManyEvictions {
        /// The number of evictions that explains all answers.
        needed: u64,
        /// The number of counted evictions.
        counted: u64,
    },
    /// In no order of an id's operations are their answers right; it has no other name.
    NoOrder,
    /// Too many operations on one id overlap for the checker to try all orders: nothing is known of
    /// the subject.
    TooManyOrders,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::TwoFresh => "fresh to two overlapping calls",
            Problem::ForgottenEarly { by, of } => {
                return write!(f, "forgotten {by:?} early, {} of the window", percent(*by, *of));
            }
            Problem::RememberedTooLong { by: Duration::ZERO, .. } => "still remembered at the end of the window",
            Problem::RememberedTooLong { by, of } => {
                return write!(f, "remembered {by:?} too long, {} of the window", percent(*by, *of));
            }
            Problem::LostInBatch => "lost in its batch, which has it twice: both are fresh",
            Problem::FreshToNobody => "fresh to nobody: a duplicate, though nobody was told that it is fresh",
            Problem::NotForgotten => "a duplicate after it was forgotten",
            Problem::NotReleased => "a duplicate after its claim was released",
            Problem::ForgottenMeanwhile => "accepted while it was being forgotten, and forgotten again",
            Problem::TakenWhileClaimed => "given to another while it was claimed",
            Problem::TakenOverEarly { by, of } => {
                return write!(f, "taken over {by:?} before its lease ended, {} of the lease", percent(*by, *of));
            }
            Problem::KeptTooLong { by: Duration::ZERO, .. } => "still in progress at the end of its lease",
            Problem::KeptTooLong { by, of } => {
                return write!(f, "in progress {by:?} after its lease ended, {} of the lease", percent(*by, *of));
            }
            Problem::DuplicateInProgress => "a duplicate, though it was only claimed",
            Problem::InProgressForNobody => "in progress, though nobody had claimed it",
            Problem::LateHolder => "a claim was ended or renewed by one to whom it no longer belonged",
            Problem::HolderRefused => "a holder was refused, though the claim was its own",
            Problem::ForgottenWhileClaimed => "forgotten while it was claimed",
            Problem::FalseMismatch => "a mismatch, though no other fingerprint was known",
            Problem::TokenGivenTwice { token } => return write!(f, "two claims got the token {token}"),
            Problem::TokenTooSmall { token, earlier } => {
                return write!(f, "a claim got the token {token}, after one that had got {earlier}");
            }
            Problem::TooManyEvictions { needed, counted } => {
                return write!(f, "{needed} answers are fresh without reason, {counted} evictions were counted");
            }
            Problem::NoOrder => "in no order are these answers right",
            Problem::TooManyOrders => "too many orders of these to try them all",
        })
    }
}

/// Writes a part of a time in percent.
fn percent(part: Duration, whole: Duration) -> String {
    let percent = 100.0 * part.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE);
    match percent {
        0.1..10.0 => format!("{percent:.1} %"),
        10.0.. => format!("{percent:.0} %"),
        _ => "less than 0.1 %".into(),
    }
}

/// Returns the variant's name, for tables of what is expected.
#[cfg(test)]
pub(crate) fn name(problem: Problem) -> String {
    let text = format!("{problem:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_percent() {
        let of = Duration::from_secs(60);
        let early = |by| Problem::ForgottenEarly { by, of }.to_string();
        assert_eq!(early(Duration::from_millis(3)), "forgotten 3ms early, less than 0.1 % of the window");
        assert_eq!(early(Duration::from_secs(3)), "forgotten 3s early, 5.0 % of the window");
        assert_eq!(early(of), "forgotten 60s early, 100 % of the window");
        let none = Problem::KeptTooLong { by: of, of: Duration::ZERO }.to_string();
        assert!(none.starts_with("in progress 60s after its lease ended"), "{none}");
    }
}
