//! A violation, as a table to read.

use super::operation::{Interval, Operation};
use super::state::{Effective, State};
use super::subject::Semantics;
use std::fmt;

/// The reason for which a history is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// In no order of an id's operations are their answers right.
    NoOrder,
    /// More answers are fresh without reason than evictions were counted.
    TooManyEvictions {
        /// The number of evictions that explains all answers.
        needed: u64,
        /// The number of counted evictions.
        counted: u64,
    },
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
    /// Too many operations on one id overlap for the checker to try all orders: nothing is known of
    /// the subject.
    TooManyOrders,
}

/// A history that no correct subject could have given, or the reason for which that cannot be
/// decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The id. (For [`Reason::TooManyEvictions`], the one whose answers were one too many.)
    pub id: u64,
    /// The reason.
    pub reason: Reason,
    /// The operations on the id from the last moment at which none was under way, to the point at
    /// which no order was left.
    pub operations: Vec<Operation>,
    /// The specification.
    pub semantics: Semantics,
    /// The states of the id before, and the times that may have counted for each operation.
    pub(super) before: Vec<State>,
    pub(super) effective: Vec<Effective>,
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::NoOrder => writeln!(f, "id {}: in no order are these answers right", self.id)?,
            Reason::TooManyEvictions { needed, counted } => writeln!(
                f,
                "{needed} answers are fresh without reason, {counted} evictions were counted; id {}:",
                self.id
            )?,
            Reason::TokenGivenTwice { token } => writeln!(f, "id {}: two claims got the token {token}", self.id)?,
            Reason::TokenTooSmall { token, earlier } => {
                writeln!(f, "id {}: a claim got the token {token}, after one that had got {earlier}", self.id)?
            }
            Reason::TooManyOrders => writeln!(f, "id {}: too many orders of these to try them all", self.id)?,
        }
        let Semantics { window, slack, refresh_on_duplicate, .. } = self.semantics;
        let refresh = if refresh_on_duplicate { ", extended by duplicates" } else { "" };
        writeln!(f, "(remembered for {window:?}, at most {slack:?} longer{refresh}; times in ns)")?;
        for state in &self.before {
            match state {
                State::Unknown => writeln!(f, "before: not remembered")?,
                State::Claimed { by, .. } => writeln!(f, "before: claimed by thread {by}")?,
                State::Accepted { earliest, latest, .. } => {
                    writeln!(f, "before: accepted at {}", range(*earliest, *latest))?
                }
            }
        }
        let rows: Vec<_> = self.operations.iter().zip(&self.effective).collect();
        writeln!(f, "{:>6} {:>12} {:>12} {:>16} {:>34}  answer", "thread", "invoked", "returned", "at", "counts as")?;
        // The cause is at the end, and the initial state at the beginning.
        const ENDS: usize = 12;
        for (i, (operation, effective)) in rows.iter().enumerate() {
            if rows.len() > 2 * ENDS && (ENDS..rows.len() - ENDS).contains(&i) {
                if i == ENDS {
                    writeln!(f, "{:>6} ({} more)", "…", rows.len() - 2 * ENDS)?;
                }
                continue;
            }
            let Operation { at, interval: Interval { invoked, returned }, thread, event, .. } = operation;
            let returned = if *returned == Interval::NEVER { "never".into() } else { returned.to_string() };
            let counts_as = range(effective.earliest, effective.latest);
            writeln!(f, "{thread:>6} {invoked:>12} {returned:>12} {:>16} {counts_as:>34}  {event:?}", at.as_nanos())?;
        }
        Ok(())
    }
}

fn range(earliest: u64, latest: u64) -> String {
    match latest {
        u64::MAX => format!("{earliest} or later"),
        latest if latest == earliest => earliest.to_string(),
        latest => format!("{earliest} to {latest}"),
    }
}
