//! Running threads and recording their operations.

use super::follow::follow;
use super::pace::Pace;
use super::probe::probes;
use super::recorder::Stamps;
use super::script::Script;
use super::workload::{Call, Workload};
use crate::checker::check::Checker;
use crate::checker::report::Report;
use crate::checker::violation::Violation;
use crate::operation::Operation;
use crate::subject::{Semantics, Subject, Time};
use hapax::Timestamp;
use std::sync::Barrier;

/// Runs a workload on a subject, and checks the recorded history. A long one is recorded and
/// checked a million operations at a time, so that memory does not limit it. Where the workload has
/// [restarts](Workload::restart_every), the subject is stopped and started in between.
///
/// Afterwards, if the subject takes the time as an argument, one thread asks for ids of its own at
/// the edges: one nanosecond before the window's end, at its end, one after it, and likewise around
/// the end of the slack and of leases; by checks, batches, and claims if the workload has some.
/// These probes begin once everything else is over, at times after those of the workload.
///
/// # Errors
///
/// [`Violation`] names the wrong answers.
pub fn verify<S: Subject>(subject: &S, workload: &Workload, semantics: &Semantics) -> Result<Report, Box<Violation>> {
    const PIECE: u64 = 1_000_000;
    let stamps = if semantics.time == Time::Own { Stamps::with_clock() } else { Stamps::new() };
    let pace = Pace::new(workload.threads);
    let mut checker = Checker::new(semantics);
    let evicted_before = subject.evicted();
    let (mut begin, mut restart_at) = (0, workload.restart_every);
    let mut recorded = Vec::new();
    let mut latest = Timestamp::default();
    let mut unchecked = 0;
    while begin < workload.operations {
        let end = workload.operations.min(begin + PIECE - unchecked);
        let end = if restart_at > begin { end.min(restart_at) } else { end };
        recorded.push((
            record(subject, &stamps, Script::of_threads(workload, &pace, begin..end)),
            subject.evicted() - evicted_before,
        ));
        unchecked += end - begin;
        begin = end;
        if begin == restart_at && begin < workload.operations {
            restart_at += workload.restart_every;
            checker.restarted(subject.restart());
            // Checking takes time, in which a subject with a clock of its own would forget what it
            // must still know.
            if unchecked < PIECE {
                continue;
            }
        }
        for (operations, evicted) in recorded.drain(..) {
            checker.check(&operations, evicted)?;
            latest = operations.iter().map(|operation| operation.at).fold(latest, Ord::max);
        }
        unchecked = 0;
    }
    // Stamps that tell each call from the next: the time that counts is then exactly the given one.
    let script = probes(workload, semantics, latest);
    let operations = record(subject, &Stamps::exact(), vec![script.into_iter()]);
    checker.check(&operations, subject.evicted() - evicted_before)?;
    checker.probed(operations.len());
    Ok(checker.report())
}

/// Runs a thread for each script, and records its operations: for workloads of your own. Batches
/// become operations one by one, in their order, each with the interval of the whole; empty ones
/// are skipped.
pub fn record<S: Subject, I>(subject: &S, stamps: &Stamps, scripts: Vec<I>) -> Vec<Operation>
where
    I: Iterator<Item = (Timestamp, Call)> + Send,
{
    let start = Barrier::new(scripts.len());
    std::thread::scope(|scope| {
        let run = |(thread, script)| {
            let (start, mut recorder) = (&start, stamps.recorder(thread));
            scope.spawn(move || {
                start.wait();
                follow(subject, script, &mut recorder);
                recorder.into_operations()
            })
        };
        let threads: Vec<_> = (0..).zip(scripts).map(run).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
