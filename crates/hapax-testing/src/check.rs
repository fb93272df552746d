//! The checker: it looks, for each id, for an order of its operations that explains every answer.

use super::exercise::{Exercise, rules_of};
use super::operation::{Event, Interval, Operation};
use super::report::Report;
use super::rules::Rule;
use super::search::{Configuration, Failed, Remainder, Search, Step};
use super::state::{Act, Effective, Specification, State};
use super::subject::{Semantics, Time};
use super::tokens::Tokens;
use super::violation::{Reason, Violation};
use std::collections::HashMap;
use std::ops::Range;

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
    pub(super) fn restarted(&mut self, restarted: bool) {
        self.report.restarts += u64::from(restarted);
    }

    /// Counts operations that probed the edges.
    pub(super) fn probed(&mut self, operations: usize) {
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
            let checked = self
                .check_id(one_id[0].0, &steps, &mut search, &mut walk, evicted)
                .and_then(|()| self.tokens.check(one_id[0].0, one_id.iter().map(|&(_, _, i)| &operations[i])));
            checked.map_err(|reason| {
                let (before, shown) = match reason {
                    Reason::TooManyEvictions { .. } => walk.evicted(),
                    // The two claims may be far apart.
                    Reason::TokenGivenTwice { .. } | Reason::TokenTooSmall { .. } => (Vec::new(), 0..one_id.len()),
                    _ => walk.failed(),
                };
                let rows = one_id[shown].iter().map(|&(_, _, i)| (operations[i], effective[i]));
                let (operations, effective) = rows.unzip();
                let id = one_id[0].0;
                Box::new(Violation { id, reason, operations, semantics: self.semantics, before, effective })
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
    ) -> Result<(), Reason> {
        let known = self.known.get(&id);
        search.start(known).and_then(|()| walk.walk(search, &self.spec, steps)).map_err(|failed| match failed {
            Failed::NoOrder => Reason::NoOrder,
            Failed::TooMany => Reason::TooManyOrders,
        })?;
        let now = match self.semantics.time {
            Time::LargestSoFar | Time::Own => self.given.told,
            // Any time can come after that.
            Time::AsGiven => 0,
        };
        let was_known = known.is_some();
        let (remainder, evictions) = search.finish(&self.spec, now);
        match remainder {
            Some(remainder) => drop(self.known.insert(id, remainder)),
            None if was_known => drop(self.known.remove(&id)),
            None => {}
        }
        self.report.overlapping += walk.overlapping;
        self.forgotten_meanwhile += walk.forgotten_meanwhile;
        self.report.needed_evictions += u64::from(evictions);
        match self.report.needed_evictions {
            needed if needed > evicted => Err(Reason::TooManyEvictions { needed, counted: evicted }),
            _ => Ok(()),
        }
    }
}

impl Step {
    fn new(operation: &Operation, effective: Effective) -> Self {
        let Interval { invoked, returned } = operation.interval;
        let (act, optional) = (Act::of(operation), operation.is_optional());
        Step { invoked, returned, effective, act, optional, endless: false }
    }
}

/// A walk through one id's operations, and the part to show if it ends early.
#[derive(Default)]
struct Walk {
    overlapping: u64,
    /// The number of these where one of the two forgot the id.
    forgotten_meanwhile: u64,
    /// The index of the next operation.
    reached: usize,
    /// The last moment at which nothing was under way and the id's state had become better known,
    /// and the one before that.
    pause: Pause,
    pause_before: Pause,
    /// The beginning and the end of the last operations that only an eviction explains.
    evicting: Option<(Pause, usize)>,
}

/// A moment at which nothing was under way: the index of the next operation, and the possible
/// states.
#[derive(Clone, Default)]
struct Pause {
    at: usize,
    configurations: Vec<Configuration>,
}

impl Walk {
    fn walk(&mut self, search: &mut Search, spec: &Specification, steps: &[Step]) -> Result<(), Failed> {
        for (i, step) in steps.iter().enumerate() {
            self.reached = i;
            search.catch_up(spec, step.invoked)?;
            let quiet = search.is_quiet();
            if quiet {
                self.pause(search, i);
            }
            if search.others(step.act.thread).next().is_some() {
                self.overlapping += 1;
                let mut events = search.others(step.act.thread).map(|other| other.event);
                let forgets = step.act.event == Event::Forget || events.any(|event| event == Event::Forget);
                self.forgotten_meanwhile += u64::from(forgets);
            }
            let alone = quiet && steps.get(i + 1).is_none_or(|next| next.invoked > step.returned);
            self.reached = i + 1;
            if alone { search.alone(spec, step)? } else { search.invoke(*step)? }
        }
        search.catch_up(spec, u64::MAX)?;
        self.pause(search, steps.len());
        Ok(())
    }

    /// Notes a moment at which nothing is under way.
    fn pause(&mut self, search: &Search, at: usize) {
        let configurations = search.configurations();
        if configurations == self.pause.configurations {
            return;
        }
        std::mem::swap(&mut self.pause, &mut self.pause_before);
        self.pause.at = at;
        self.pause.configurations.clear();
        self.pause.configurations.extend_from_slice(configurations);
        let evictions = |pause: &Pause| pause.configurations.iter().map(|c| c.evictions).min();
        if at > 0 && evictions(&self.pause) > evictions(&self.pause_before) {
            self.evicting = Some((self.pause_before.clone(), at));
        }
    }

    /// Returns the part to show when no order was found: the states that were possible before, and
    /// the operations since then. It begins where the id's state last became better known: that is
    /// what the last operations contradict.
    fn failed(&self) -> (Vec<State>, Range<usize>) {
        let begin = if self.pause.at > 0 { &self.pause_before } else { &self.pause };
        (begin.states(), begin.at..self.reached)
    }

    /// Returns the part to show when it took one eviction too many.
    fn evicted(&self) -> (Vec<State>, Range<usize>) {
        self.evicting.as_ref().map_or_else(|| self.failed(), |(pause, end)| (pause.states(), pause.at..*end))
    }
}

impl Pause {
    fn states(&self) -> Vec<State> {
        self.configurations.iter().map(|configuration| configuration.state).collect()
    }
}

/// The largest times that were given so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given {
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
pub(super) fn effective_times(operations: &[Operation], time: Time, given: &mut Given) -> Vec<Effective> {
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
