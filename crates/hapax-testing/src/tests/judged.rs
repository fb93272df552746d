//! Judgements of flawed subjects, with the time that each takes: a line of `scripts/flaws` each.

use crate::checker::problem::name;
use crate::{Event, Interval, Operation, Problem, Report, Violation};
use hapax::Timestamp;
use std::fmt;
use std::time::Instant;

/// Judges something, and prints what came of it, with the seconds.
pub(crate) fn timed<T>(subject: impl fmt::Debug, judge: impl FnOnce() -> T, verdict: impl FnOnce(&T) -> String) -> T {
    let start = Instant::now();
    let judged = judge();
    let seconds = start.elapsed().as_secs_f64();
    println!("\njudged: {subject:?} | {} | {seconds:.2}", verdict(&judged));
    judged
}

/// Returns the first number, or the second one where `HAPAX_LONG` asks for campaigns.
/// (testkit's: testkit depends on this crate.)
pub(crate) fn long<T>(short: T, long: T) -> T {
    if std::env::var_os("HAPAX_LONG").is_some() { long } else { short }
}

/// Returns the problem of a flawed subject: the first of these names that a workload shows, given
/// its seed.
///
/// A flaw may show in several ways, and what the threads do decides which is seen first: one of the
/// workloads must show what it is known for. Most show it in the first one; where others leave this
/// process a part of one processor, threads seldom meet, and more are needed.
#[track_caller]
pub(crate) fn found<R>(
    flaw: impl fmt::Debug,
    names: &[&str],
    mut verified: impl FnMut(u64) -> Result<R, Box<Violation>>,
) -> Problem {
    const WORKLOADS_MAX: u64 = 300;
    let mut named = |seed| {
        let violation = verified(seed).err()?;
        println!("{flaw:?}, seed {seed}: {violation}");
        names.contains(&&*name(violation.problem)).then_some(violation.problem)
    };
    let verdict = |problem: &Option<Problem>| problem.map_or("not found".into(), name);
    let problem = timed(&flaw, || (0..WORKLOADS_MAX).find_map(&mut named), verdict);
    problem.unwrap_or_else(|| panic!("{flaw:?} was not found as one of {names:?}"))
}

/// Returns the report of a right subject.
#[track_caller]
pub(crate) fn accepted(subject: impl fmt::Debug, verify: impl FnOnce() -> Result<Report, Box<Violation>>) -> Report {
    let verdict = |judged: &Result<Report, Box<Violation>>| match judged {
        Ok(_) => "accepted".into(),
        Err(violation) => name(violation.problem),
    };
    let report = timed(&subject, verify, verdict).unwrap_or_else(|violation| panic!("{subject:?}: {violation}"));
    println!("{subject:?}: {report}");
    report
}

/// A call of a handmade history: thread, invoked, returned (0: never), at, event.
pub(crate) type Row = (u16, u64, u64, u64, Event);

/// Returns a history of one id, whose times are in units of so many nanoseconds.
pub(crate) fn history(id: u64, nanos: u64, rows: &[Row]) -> Vec<Operation> {
    let operation = |&(thread, invoked, returned, at, event): &Row| {
        let returned = if returned == 0 { Interval::NEVER } else { returned };
        let (at, interval) = (Timestamp::from_nanos(at * nanos), Interval { invoked, returned });
        Operation { id, at, interval, thread, event, ..Operation::default() }
    };
    rows.iter().map(operation).collect()
}
