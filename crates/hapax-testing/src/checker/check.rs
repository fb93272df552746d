//! The checker: it looks, for each id, for an order of its operations that explains every answer.

use super::exercise::{Exercise, rules_of};
use super::naming::Row;
use super::problem::Problem;
use super::report::Report;
use super::rules::Rule;
use super::search::{Failed, Remainder, Search, Step};
use super::shrink::Shrink;
use super::state::{Act, Effective, Specification, State};
use super::tokens::Tokens;
use super::violation::Violation;
use super::walk::{Part, Walk};
use crate::operation::{Event, Interval, Operation};
use crate::subject::{Semantics, Time};
use std::collections::HashMap;

/// Checks whether a correct subject could have given this history; `evicted` is the number of
/// evictions that it has counted.
///
/// Operations may come in any order, except those of one thread.
///
/// ```
/// use hapax_testing::{Event, Interval, Operation, Semantics, check_history};
/// use hapax::Timestamp;
/// use std::time::Duration;
///
/// let check = |thread, invoked, returned, event| Operation {
///     id: 17,
///     at: Timestamp::from_secs(1),
///     interval: Interval { invoked, returned },
///     thread,
///     event,
///     ..Operation::default()
/// };
/// let semantics = Semantics::of_window(Duration::from_secs(60));
///
/// // The second one overlaps the first, so it may have come before it.
/// let history = [check(0, 1, 4, Event::Duplicate), check(1, 2, 3, Event::Fresh)];
/// assert!(check_history(&history, &semantics, 0).is_ok());
///
/// // Two threads believe that the id is theirs.
/// let history = [check(0, 1, 4, Event::Fresh), check(1, 2, 3, Event::Fresh)];
/// let violation = check_history(&history, &semantics, 0).unwrap_err();
/// println!("{violation}");
/// ```
///
/// # Errors
///
/// [`Violation`] has the operations that could not have been answered so.
pub fn check_history(operations: &[Operation], semantics: &Semantics, evicted: u64) -> Result<Report, Box<Violation>> {
    let mut checker = Checker::new(semantics);
    checker.check(operations, evicted)?;
    Ok(checker.report())
}

/// A checker of a long history, piece by piece.
///
/// A piece ends when no call is under way, and the next one begins after that: then the state of
/// each id is carried over, and the pieces together are checked as if they were one. (Calls that
/// gave no answer may go on.)
#[derive(Debug)]
pub struct Checker {
    semantics: Semantics,
    spec: Specification,
    /// The states of the ids of earlier pieces.
    known: HashMap<u64, Remainder>,
    tokens: Tokens,
    given: Given,
    exercise: Exercise,
    /// The number of operations that overlapped another one, where one of the two forgot the id.
    forgotten_meanwhile: u64,
    report: Report,
}

impl Checker {
    /// Creates a checker that has seen nothing yet.
    pub fn new(semantics: &Semantics) -> Self {
        Checker {
            semantics: *semantics,
            spec: Specification::new(semantics),
            known: HashMap::new(),
            tokens: Tokens::default(),
            given: Given::default(),
            exercise: Exercise::new(semantics),
            forgotten_meanwhile: 0,
            report: Report::default(),
        }
    }

    /// Returns the counts of operations that were checked and found right so far.
    pub fn report(&self) -> Report {
        let report = self.report;
        let mut exercised = self.exercise.seen;
        for (rule, count) in [
            (Rule::Overlap, report.overlapping),
            (Rule::Forgetting, report.forgotten),
            (Rule::ForgettingMeanwhile, self.forgotten_meanwhile),
            (Rule::Claims, report.claimed),
            (Rule::Renewal, report.renewed),
            (Rule::LateHolder, report.lost),
            (Rule::Mismatch, report.mismatches),
            (Rule::Restart, report.restarts),
            (Rule::Eviction, report.counted_evictions),
        ] {
            exercised.add_if(rule, count > 0);
        }
        let rules = rules_of(&self.semantics, exercised);
        Report { live_max: self.exercise.live_max, rules, exercised, ..report }
    }

    /// Counts a restart of the subject, if it did restart. What it had acknowledged before it must
    /// still know, so nothing else is different.
    pub(crate) fn restarted(&mut self, restarted: bool) {
        self.report.restarts += u64::from(restarted);
    }

    /// Counts operations that probed the edges.
    pub(crate) fn probed(&mut self, operations: usize) {
        self.report.probes += operations as u64;
    }

    /// Checks the next piece; `evicted` is the number of evictions that the subject has counted up
    /// to its end.
    ///
    /// # Errors
    ///
    /// [`Violation`] has the operations that could not have been answered so. After that the
    /// checker cannot go on.
    pub fn check(&mut self, operations: &[Operation], evicted: u64) -> Result<(), Box<Violation>> {
        let effective = effective_times(operations, self.semantics.time, &mut self.given);
        let key = |i: usize| (operations[i].id, operations[i].interval.invoked, i);
        let mut by_id: Vec<_> = (0..operations.len()).map(key).collect();
        by_id.sort_unstable();

        let mut search = Search::new(evicted > 0);
        let mut steps = Vec::new();
        for one_id in by_id.chunk_by(|a, b| a.0 == b.0) {
            steps.clear();
            steps.extend(one_id.iter().map(|&(_, _, i)| Step::new(&operations[i], effective[i])));
            let mut walk = Walk::default();
            let id = one_id[0].0;
            let checked = self
                .check_id(id, &steps, &mut search, &mut walk, evicted)
                .and_then(|()| self.tokens.check(id, one_id.iter().map(|&(_, _, i)| &operations[i])));
            checked.map_err(|problem| {
                let row = |&(_, _, i): &(u64, u64, usize)| Row { operation: operations[i], effective: effective[i] };
                let rows: Vec<_> = one_id.iter().map(row).collect();
                Box::new(self.violation(id, problem, &rows, &steps, &walk, evicted))
            })?;
        }
        operations.iter().for_each(|operation| self.report.count(operation.event));
        self.exercise.follow(operations, &effective);
        self.report.counted_evictions = evicted;
        Ok(())
    }

    /// Checks the operations on one id.
    fn check_id(
        &mut self,
        id: u64,
        steps: &[Step],
        search: &mut Search,
        walk: &mut Walk,
        evicted: u64,
    ) -> Result<(), Problem> {
        let known = self.known.get(&id);
        search.start(known).and_then(|()| walk.walk(search, &self.spec, steps)).map_err(|failed| match failed {
            Failed::NoOrder(_) => Problem::NoOrder,
            Failed::TooMany => Problem::TooManyOrders,
        })?;
        let now = match self.semantics.time {
            Time::LargestSoFar | Time::Own => self.given.told,
            // Any time can come after that.
            Time::AsGiven => 0,
        };
        let was_known = known.is_some();
        let (remainder, evictions) = search.finish(&self.spec, now);
        self.report.needed_evictions += u64::from(evictions);
        let needed = self.report.needed_evictions;
        if needed > evicted {
            return Err(Problem::TooManyEvictions { needed, counted: evicted });
        }
        match remainder {
            Some(remainder) => drop(self.known.insert(id, remainder)),
            None if was_known => drop(self.known.remove(&id)),
            None => {}
        }
        self.report.overlapping += walk.overlapping;
        self.forgotten_meanwhile += walk.forgotten_meanwhile;
        Ok(())
    }

    /// Tells what is wrong with one id's operations, by as few of them as possible.
    fn violation(
        &self,
        id: u64,
        problem: Problem,
        rows: &[Row],
        steps: &[Step],
        walk: &Walk,
        evicted: u64,
    ) -> Violation {
        let Checker { semantics, spec, .. } = self;
        let (operations, effective, before) = Default::default();
        let violation =
            Violation { id, problem, operations, among: rows.len(), semantics: *semantics, before, effective };
        let part = match problem {
            // The two claims may be far apart.
            Problem::TokenGivenTwice { token } => return violation.rows(claims(rows, [token, token])),
            Problem::TokenTooSmall { token, earlier } => return violation.rows(claims(rows, [token, earlier])),
            Problem::TooManyEvictions { .. } => walk.evicted(),
            Problem::TooManyOrders => walk.under_way(),
            _ => walk.wrong(),
        };
        let Part { begin, end, start } = part;
        let start = start.as_ref().or_else(|| self.known.get(&id));
        let (steps, rows) = (&steps[begin..end], &rows[begin..end]);
        let state = |remainder: &Remainder| remainder.configurations.iter().map(|c| c.state).collect();
        let violation = Violation { before: start.map_or(vec![State::Unknown], state), ..violation };
        let is_eviction = matches!(problem, Problem::TooManyEvictions { .. });
        let evictions_allowed = evicted > 0 && !is_eviction;
        let shrink = Shrink { semantics, spec, start, steps, rows, evictions_allowed };
        match shrink.shrunk().filter(|_| problem != Problem::TooManyOrders) {
            None => violation.rows(rows.iter().copied()),
            Some(shrunk) => {
                let problem = if is_eviction { problem } else { shrunk.problem };
                Violation { problem, ..violation.rows(shrunk.kept.iter().map(|&i| rows[i])) }
            }
        }
    }
}

/// Returns the claims that got one of these tokens.
fn claims(rows: &[Row], tokens: [u64; 2]) -> impl Iterator<Item = Row> {
    rows.iter()
        .copied()
        .filter(move |row| row.operation.event == Event::Claimed && tokens.contains(&row.operation.token))
}

impl Step {
    fn new(operation: &Operation, effective: Effective) -> Self {
        let Interval { invoked, returned } = operation.interval;
        let (act, optional) = (Act::of(operation), operation.is_optional());
        Step { invoked, returned, effective, act, optional, endless: false }
    }
}

/// The largest times that were given so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given {
    /// The largest time that the subject knows: by checks that have returned.
    told: u64,
    /// The largest time that it may know.
    any: u64,
}

/// Returns the time that counted for each operation: no less than the times that were given by
/// operations that had returned before it was invoked, no more than the times that were given by
/// operations that were invoked before it returned.
///
/// A subject that reads a clock of its own may have read it at any moment of the call.
pub(crate) fn effective_times(operations: &[Operation], time: Time, given: &mut Given) -> Vec<Effective> {
    let mut effective: Vec<_> = operations
        .iter()
        .map(|operation| operation.at.as_nanos())
        .map(|at| Effective { earliest: at, latest: at })
        .collect();
    match time {
        Time::AsGiven => return effective,
        Time::Own => return own_times(operations, given),
        Time::LargestSoFar => {}
    }
    // These sorts find runs that are already sorted: each thread's.
    let mut by_invoked: Vec<_> = (0..operations.len()).collect();
    by_invoked.sort_by_key(|&i| operations[i].interval.invoked);
    let mut by_returned: Vec<_> = (0..operations.len()).filter(|&i| !operations[i].is_optional()).collect();
    by_returned.sort_by_key(|&i| operations[i].interval.returned);

    let mut any = given.any;
    let mut begun = by_invoked.iter().peekable();
    for &i in &by_returned {
        while let Some(&j) = begun.next_if(|&&j| operations[j].interval.invoked <= operations[i].interval.returned) {
            any = any.max(operations[j].at.as_nanos());
        }
        effective[i].latest = any;
    }
    given.any = begun.fold(any, |any, &j| any.max(operations[j].at.as_nanos()));

    let mut ended = by_returned.iter().filter(|&&i| operations[i].event.is_check()).peekable();
    for &i in &by_invoked {
        while let Some(&j) = ended.next_if(|&&j| operations[j].interval.returned < operations[i].interval.invoked) {
            given.told = given.told.max(operations[j].at.as_nanos());
        }
        effective[i].earliest = effective[i].earliest.max(given.told);
        if operations[i].is_optional() {
            effective[i].latest = u64::MAX;
        }
    }
    given.told = ended.fold(given.told, |told, &j| told.max(operations[j].at.as_nanos()));
    effective
}

fn own_times(operations: &[Operation], given: &mut Given) -> Vec<Effective> {
    let times = operations.iter().map(|operation| {
        let earliest = operation.at.as_nanos();
        let latest = operation.until.as_nanos().max(earliest);
        let has_end = !operation.is_optional();
        // Later pieces begin when these have returned.
        given.told = given.told.max(if has_end { latest } else { earliest });
        Effective { earliest, latest: if has_end { latest } else { u64::MAX } }
    });
    times.collect()
}
