//! The outcome: the schedules that were tried, or the first one that is wrong.

use crate::violation::Violation;
use std::fmt::{self, Display};

/// The schedules that a subject has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// The number of schedules.
    pub schedules: u32,
    /// The number of recorded operations.
    pub operations: u64,
    /// The number of operations that another one on the same id overlapped. If there are none, the
    /// subject's locks and atomics may not be shuttle's.
    pub overlapping: u64,
}

impl Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explored { schedules, operations, overlapping } = self;
        write!(f, "{schedules} schedules, {operations} operations, {overlapping} of them overlapping")?;
        if *overlapping == 0 {
            f.write_str(": are the subject's locks and atomics those of shuttle?")?;
        }
        Ok(())
    }
}

/// The first schedule in which the subject is wrong. The same seed finds it again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedSchedule {
    /// The seed.
    pub seed: u64,
    /// The number of the schedule, from 1.
    pub schedule: u32,
    /// The flaw that it shows.
    pub failure: Failure,
}

/// The flaw that a schedule shows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// In no order are the answers right.
    Wrong(Box<Violation>),
    /// A thread panicked, all wait for each other, or they go round for ever; in shuttle's words,
    /// or the panic's.
    Stopped(String),
}

impl Display for FailedSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schedule {} of seed {}: ", self.schedule, self.seed)?;
        match &self.failure {
            Failure::Wrong(violation) => Display::fmt(violation, f),
            Failure::Stopped(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for FailedSchedule {}
