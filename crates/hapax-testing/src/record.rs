//! Running threads and recording their operations.

use super::check::Checker;
use super::operation::{Event, Operation};
use super::pace::Pace;
use super::recorder::{Recorder, Stamps};
use super::subject::{Attempt, End, Semantics, Subject, Time};
use super::violation::{Report, Violation};
use super::workload::{Call, Workload};
use hapax::Timestamp;
use std::collections::VecDeque;
use std::sync::Barrier;

/// Runs a workload on a subject, and checks the recorded history. A long one is recorded and
/// checked a million operations at a time, so that memory does not limit it.
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
    let mut begin = 0;
    while begin < workload.operations {
        let end = workload.operations.min(begin + PIECE);
        let operations = record(subject, &stamps, workload.scripts(&pace, begin..end));
        checker.check(&operations, subject.evicted() - evicted_before)?;
        begin = end;
    }
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

/// Makes the calls of a script.
fn follow<S: Subject>(subject: &S, script: impl Iterator<Item = (Timestamp, Call)>, recorder: &mut Recorder<'_>) {
    let mut answers = Vec::new();
    let mut held = VecDeque::new();
    let mut now = Timestamp::default();
    for (at, call) in script {
        now = at;
        match call {
            // It would not be recorded, though it may tell the subject a time.
            Call::Batch(ids) if ids.is_empty() => {}
            Call::Check(id) => recorder.check(id, at, || subject.check(id, at)),
            Call::Batch(ids) => {
                answers.clear();
                let (interval, ()) = recorder.time(|| subject.check_batch(&ids, at, &mut answers));
                assert_eq!(answers.len(), ids.len(), "a batch needs an answer for each id");
                for (&id, &answer) in ids.iter().zip(&answers) {
                    recorder.push(interval, id, at, Event::of_check(answer));
                }
            }
            Call::Forget(id) => {
                if let (interval, true) = recorder.time(|| subject.forget(id, at)) {
                    recorder.push(interval, id, at, Event::Forget);
                }
            }
            Call::Claim { id, hold, completes } => {
                let (interval, attempt) = recorder.time(|| subject.claim(id, at));
                let event = match attempt {
                    None => continue,
                    Some(Attempt::InProgress) => Event::InProgress,
                    Some(Attempt::Duplicate) => Event::Duplicate,
                    // It was made without a fingerprint, so nothing can differ.
                    Some(Attempt::Mismatch) => Event::Mismatch,
                    Some(Attempt::Claimed(end)) => {
                        held.push_back(Held { id, calls_left: hold, completes, end });
                        Event::Claimed
                    }
                    Some(Attempt::Leased(lease)) => {
                        let end: End<'_> = Box::new(move |completes, at| lease.end(completes, at));
                        held.push_back(Held { id, calls_left: hold, completes, end });
                        Event::Claimed
                    }
                };
                recorder.push(interval, id, at, event);
            }
        }
        end_what_is_due(&mut held, at, recorder);
    }
    held.iter_mut().for_each(|held| held.calls_left = 0);
    end_what_is_due(&mut held, now, recorder);
}

/// A claim that a thread has.
struct Held<'s> {
    id: u64,
    calls_left: u8,
    completes: bool,
    end: End<'s>,
}

fn end_what_is_due(all: &mut VecDeque<Held<'_>>, at: Timestamp, recorder: &mut Recorder<'_>) {
    for _ in 0..all.len() {
        let Some(held) = all.pop_front() else { return };
        if let Some(calls_left) = held.calls_left.checked_sub(1) {
            all.push_back(Held { calls_left, ..held });
            continue;
        }
        let event = if held.completes { Event::Completed } else { Event::Released };
        if let (interval, true) = recorder.time(|| (held.end)(held.completes, at)) {
            recorder.push(interval, held.id, at, event);
        }
    }
}
