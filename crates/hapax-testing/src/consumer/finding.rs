//! A finding: what is wrong, and the shortest schedule that shows it.

use super::story::{Line, story};
use std::fmt;

/// The way in which a consumer is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A message was acknowledged, and its effect never happened.
    Missing {
        /// The message's id.
        message: String,
    },
    /// The effect of a message happened again.
    Doubled {
        /// The message's id.
        message: String,
    },
    /// A message was not acknowledged, however often it was delivered, though all faults were over;
    /// or its handler never waits.
    NeverDone {
        /// The message's id.
        message: String,
    },
    /// A handler panicked.
    Panicked {
        /// The id of its message.
        message: String,
        /// The text of the panic.
        what: String,
    },
    /// An effect was noted that is no message's.
    UnknownEffect {
        /// Its key. Expected was the id of a message.
        key: String,
    },
    /// The consumer could not be run.
    NotRun {
        /// The reason.
        why: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Missing { message } => write!(f, "the effect of {message} is missing"),
            Problem::Doubled { message } => write!(f, "the effect of {message} happened twice"),
            Problem::NeverDone { message } => write!(f, "{message} is never done"),
            Problem::Panicked { message, what } => write!(f, "the handler of {message} panicked: {what}"),
            Problem::UnknownEffect { key } => write!(f, "expected the effect of a message's id, got {key:?}"),
            Problem::NotRun { why } => write!(f, "the consumer could not be run: {why}"),
        }
    }
}

/// A schedule in which a consumer is wrong: what happens, in its order, shrunk.
///
/// It prints as a numbered story of at most 100 columns, with virtual times; `!` stands before the
/// faults that were injected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The way in which the consumer is wrong.
    pub problem: Problem,
    /// The number of faults in the schedule.
    pub faults: usize,
    /// The seed, if the schedule was drawn by chance. It was shrunk afterwards.
    pub seed: Option<u64>,
    pub(super) lines: Vec<Line>,
}

impl Finding {
    pub(super) fn new(problem: Problem) -> Self {
        Finding { problem, faults: 0, seed: None, lines: Vec::new() }
    }
}

impl std::error::Error for Finding {}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem)?;
        if self.lines.is_empty() {
            return Ok(());
        }
        let faults = match self.faults {
            0 => "no fault".to_owned(),
            1 => "one fault".to_owned(),
            several => format!("{several} faults"),
        };
        let seed = self.seed.map_or(String::new(), |seed| format!(", found with seed {seed}"));
        write!(f, "\n(the shortest schedule found, {faults}{seed}):\n{}", story(&self.lines))
    }
}
