//! The outcome of a run of the suite: a report, or the first answer that was wrong.

use super::time::StoreTime;
use std::fmt::{self, Debug, Display};

/// The cases that a store has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The names of the cases, in the order in which they ran.
    pub cases: Vec<String>,
    /// The time of the fixture, which says how near to their ends leases and retentions were
    /// tested.
    pub time: StoreTime,
}

impl Report {
    pub(super) fn new(cases: Vec<String>, time: StoreTime) -> Self {
        Report { cases, time }
    }
}

/// Shows the number of cases, and how near to their ends leases and retentions were tested.
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cases passed, ", self.cases.len())?;
        match self.time {
            StoreTime::Stands { unit } => {
                write!(f, "leases and retentions tested 1ns before their ends and less than {unit:?} after")
            }
            StoreTime::Passes { slack } => write!(f, "leases and retentions tested {slack:?} around their ends"),
        }
    }
}

/// The first answer of a store that its contract does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The case: a promise of the contract.
    pub case: String,
    /// The request, or what was looked at.
    pub asked: String,
    /// The answers that are right.
    pub expected: String,
    /// The answer that the store gave.
    pub got: String,
    /// The beginning of all scopes of this run, to find its records by.
    pub scopes: String,
}

impl Failure {
    pub(super) fn new(wrong: Wrong, case: String, scopes: String) -> Self {
        let Wrong { asked, expected, got } = wrong;
        Failure { case, asked, expected, got, scopes }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { case, asked, expected, got, scopes } = self;
        write!(f, "case \"{case}\": {asked}: expected {expected}, got {got} (in scopes \"{scopes} …\")")
    }
}

impl std::error::Error for Failure {}

/// A wrong answer, before it is known to which case it belongs.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    pub(super) asked: String,
    pub(super) expected: String,
    pub(super) got: String,
}

impl Wrong {
    pub(super) fn new(asked: impl Display, expected: impl Display, got: impl Debug) -> Self {
        Wrong { asked: asked.to_string(), expected: expected.to_string(), got: short(format!("{got:?}")) }
    }
}

/// Cuts what would fill a page: a result of some megabytes.
fn short(shown: String) -> String {
    const CHARS: usize = 400;
    match shown.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", &shown[..end], shown.len()),
        None => shown,
    }
}

pub(super) type Checked<T = ()> = Result<T, Wrong>;

/// Checks an answer against the one that is right.
pub(super) fn is<T: PartialEq + Debug>(asked: impl Display, got: T, expected: T) -> Checked {
    if got == expected { Ok(()) } else { Err(Wrong::new(asked, short(format!("{expected:?}")), got)) }
}

/// Checks what has more than one right value.
pub(super) fn ensure(asked: impl Display, is_right: bool, expected: impl Display, got: impl Debug) -> Checked {
    if is_right { Ok(()) } else { Err(Wrong::new(asked, expected, got)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_case_the_request_and_both_answers() {
        let wrong = is("complete \"a\" with token 7", "Done", "Lost").unwrap_err();
        let failure = Failure::new(wrong, "a lease ends".into(), "4711".into());
        let shown = failure.to_string();
        assert_eq!(
            shown,
            "case \"a lease ends\": complete \"a\" with token 7: expected \"Lost\", got \"Done\" (in scopes \"4711 …\")"
        );
    }

    #[test]
    fn a_large_answer_is_cut() {
        let wrong = is("a result", "ü".repeat(1 << 20), String::new()).unwrap_err();
        assert!(wrong.got.len() < 1_000, "{} bytes", wrong.got.len());
    }
}
