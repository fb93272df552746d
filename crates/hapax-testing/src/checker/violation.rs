//! A violation: the name of what is wrong, and the shortest history that shows it, as a diagram.

use super::diagram::{Call, diagram};
use super::naming::Row;
use super::problem::Problem;
use super::state::{Effective, State};
use crate::operation::Operation;
use crate::subject::Semantics;
use std::fmt;
use std::time::Duration;

/// A history that no correct subject could have given, or the reason for which that cannot be
/// decided.
///
/// It prints as the name of the [`Problem`] and a diagram of at most 100 columns: threads as rows
/// over time, each call in brackets with its answer. Below a call stands the time that counts for
/// it, since the first one; a range if only that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The id. (For [`Problem::TooManyEvictions`], the one whose answers were one too many.)
    pub id: u64,
    /// The way in which the subject is wrong.
    pub problem: Problem,
    /// The shortest history of the id that was found to show it, in the order of invocation.
    pub operations: Vec<Operation>,
    /// The number of operations on the id that it was looked for in.
    pub among: usize,
    /// The specification.
    pub semantics: Semantics,
    /// The states of the id before, and the times that may have counted for each operation.
    pub(crate) before: Vec<State>,
    pub(crate) effective: Vec<Effective>,
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { id, problem, operations, among, .. } = self;
        let Semantics { window, slack, refresh_on_duplicate, .. } = self.semantics;
        let longer = if slack.is_zero() { String::new() } else { format!(", at most {slack:?} longer") };
        let refresh = if refresh_on_duplicate { ", extended by duplicates" } else { "" };
        writeln!(f, "id {id}: {problem}")?;
        writeln!(f, "(remembered for {window:?}{longer}{refresh}; shown: {} of {among} answers)", operations.len())?;
        self.before.iter().take(STATES).try_for_each(|state| self.before(*state, f))?;
        f.write_str(diagram(&self.calls()).trim_end())
    }
}

/// The largest number of possible states that are shown.
const STATES: usize = 4;

impl Violation {
    /// Returns the time from which on times are counted.
    fn origin(&self) -> u64 {
        self.effective.iter().map(|effective| effective.earliest).min().unwrap_or(0)
    }

    fn before(&self, state: State, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ago = |earliest: u64, latest: u64| {
            let since = |at| Duration::from_nanos(self.origin().saturating_sub(at));
            if earliest == latest {
                format!("{:?}", since(earliest))
            } else {
                format!("{:?} to {:?}", since(latest), since(earliest))
            }
        };
        match state {
            State::Unknown => writeln!(f, "before: not remembered"),
            State::Claimed { by, .. } => writeln!(f, "before: claimed by thread {by}"),
            State::Accepted { earliest, latest, .. } => {
                let stays = self.semantics.window.saturating_add(self.semantics.slack);
                let is_over = Duration::from_nanos(self.origin().saturating_sub(latest)) >= stays;
                let end = if is_over { ", so no longer remembered" } else { "" };
                writeln!(f, "before: accepted {} earlier{end}", ago(earliest, latest))
            }
        }
    }

    /// Returns the calls of the diagram: a batch is one.
    fn calls(&self) -> Vec<Call> {
        let mut calls: Vec<Call> = Vec::new();
        let mut last = None;
        for (operation, &effective) in self.operations.iter().zip(&self.effective) {
            let batch = (operation.batch != 0).then_some((operation.thread, operation.batch));
            let text = text(operation);
            match calls.last_mut().filter(|_| batch.is_some() && batch == last) {
                Some(call) => call.text = format!("{}, {text}", call.text),
                None => {
                    let text = if batch.is_some() { format!("batch: {text}") } else { text };
                    let time = time(effective, self.origin());
                    calls.push(Call { thread: operation.thread, interval: operation.interval, text, time });
                }
            }
            last = batch;
        }
        calls
    }

    pub(crate) fn rows(mut self, rows: impl IntoIterator<Item = Row>) -> Self {
        (self.operations, self.effective) = rows.into_iter().map(|row| (row.operation, row.effective)).unzip();
        self
    }
}

/// Returns the answer of a call.
fn text(operation: &Operation) -> String {
    let text = operation.event;
    let token = if operation.token == 0 { String::new() } else { format!(", token {}", operation.token) };
    let fingerprint = match operation.fingerprint {
        0 => String::new(),
        number => format!(", fingerprint {number}"),
    };
    format!("{text}{token}{fingerprint}")
}

/// Returns the time that counts for a call, since the first one.
fn time(Effective { earliest, latest }: Effective, origin: u64) -> String {
    let since = |at: u64| Duration::from_nanos(at.saturating_sub(origin));
    match latest {
        u64::MAX => format!("{:?} or later", since(earliest)),
        latest if latest == earliest => format!("{:?}", since(earliest)),
        latest => format!("{:?} to {:?}", since(earliest), since(latest)),
    }
}
