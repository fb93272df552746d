//! Everything at once: engine, journal, history, claims, fingerprints, clocks and disk against one
//! plain reference.
//!
//! Each part has tests of its own; here they meet. A [sequence](op) of operations in any order, at
//! the worst moments, is done to an engine on a simulated [machine]: its disk may be full, damaged
//! or gone, its clocks step, it sleeps, it is killed. A [reference](world) knows of each id the
//! [states that it may be in](belief). An answer that none of them allows is wrong; then the
//! sequence is [shrunk](shrink), printed, and kept in [regressions] for ever. No thread, no sleep,
//! no real clock: a seed determines a trace.
//!
//! | who, at the worst moment | meets | must hold |
//! |---|---|---|
//! | a caller whose iterator panics, who brings no time, then times | engine, claims | one Fresh; no claim leaks; reading moves no time |
//! | an event that is late, ahead, of another century | stream time | it is counted or refused, and then nothing has changed |
//! | a holder who is late, ends twice, has another fingerprint | window, history | the token decides; a mismatch is certain |
//! | `forget`, `clear` beside what is accepted, claimed, flushed | claims, journal | a restart gives the answers from before it |
//! | an engine that is stopped, killed, opened with another window | journal | what was flushed is known for the shortest window since |
//! | a clock that stands still, steps, differs after a restart | window, journal | no window passes early; time goes on |
//! | a disk that is full, loses what was not synced, fails a sync | journal | an error, nothing acknowledged; reopened, it goes on |
//! | an operator who deletes, restores an old one, flips a bit | journal | it is refused, or says how many ids are lost |
//! | other callers, between two looks of a check or a claim | window, segments | the answer is one of some time of the call |
//!
//! `HAPAX_SEQUENCES` sets how many sequences run, `HAPAX_SEED` the first seed; scripts/simulation
//! runs a campaign.

mod belief;
mod bursts;
mod checks;
mod claiming;
mod config;
mod journaling;
mod machine;
mod meanwhile;
mod met;
mod op;
mod regressions;
mod restarts;
mod retained;
mod shrink;
mod times;
mod world;

use self::met::Met;
use self::op::Sequence;
use self::world::World;
use crate::long::long;
use crate::mutation::{Rule, leave_out};
use std::cell::Cell;
use std::sync::Once;
use std::sync::mpsc::channel;
use std::time::Duration;

/// The longest run of a sequence, which takes milliseconds; one that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(120);

/// Runs a sequence. Returns its observations, as a number, or what went wrong.
fn run(sequence: &Sequence) -> Result<u64, String> {
    observe(sequence).map(|(trace, _)| trace)
}

/// Runs a sequence. Returns its observations, as a number, with what it has met, if it is about a
/// long memory; or what went wrong.
fn observe(sequence: &Sequence) -> Result<(u64, Option<Met>), String> {
    be_silent();
    let done = std::panic::catch_unwind(|| {
        let mut world = World::new(&sequence.config)?;
        for (i, op) in sequence.ops.iter().enumerate() {
            world.run(*op).map_err(|wrong| format!("operation {i}, {op:?}: {wrong}"))?;
        }
        world.met.stats(&world.dedup().stats());
        Ok((world.trace, sequence.config.long.map(|_| world.met)))
    });
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(format!("a panic at {}: {}", PLACE.take(), text.unwrap_or_default()))
    })
}

/// Runs a sequence on a thread of its own, without a rule, if one is named: a run that never ends
/// is wrong, too.
fn run_apart(sequence: &Sequence, without: Option<Rule>) -> Result<u64, String> {
    let (sender, receiver) = channel();
    let sequence = sequence.clone();
    std::thread::spawn(move || {
        leave_out(without);
        let _ = sender.send(run(&sequence));
    });
    receiver.recv_timeout(LONGEST).unwrap_or_else(|_| Err("it does not end".to_string()))
}

thread_local! {
    static SILENT: Cell<bool> = const { Cell::new(false) };
    /// The place of the last panic.
    static PLACE: Cell<String> = const { Cell::new(String::new()) };
}

/// Silences panics: those of sequences are findings, and reported as such.
fn be_silent() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if SILENT.get() {
                PLACE.set(panic.location().map(ToString::to_string).unwrap_or_default());
            } else {
                before(panic);
            }
        }));
    });
    SILENT.set(true);
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// Reports that the sequence of a seed fails, as short as possible.
fn report(seed: u64, wrong: &str) -> ! {
    let sequence = Sequence::of_seed(seed);
    let shrunk = shrink::shrink(&sequence, |sequence| run_apart(sequence, None).is_err());
    let why = run_apart(&shrunk, None).unwrap_err();
    panic!("seed {seed}: {wrong}\nshrunk to {shrunk:?}\n{why}");
}

#[test]
fn sequences_of_everything_are_answered_as_the_reference_has_it() {
    let (first, sequences) = (number("HAPAX_SEED", 1), number("HAPAX_SEQUENCES", long(250, 4_000)));
    println!("{sequences} sequences from seed {first} on");
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads = number("HAPAX_THREADS", 2);
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let seeds = (first..first + sequences).skip(thread as usize).step_by(threads as usize);
                scope.spawn(move || {
                    let (mut met, mut failed) = (Vec::new(), None);
                    for seed in seeds {
                        match observe(&Sequence::of_seed(seed)) {
                            Ok((_, of_seed)) => met.extend(of_seed),
                            Err(wrong) => {
                                failed = Some((seed, wrong));
                                break;
                            }
                        }
                    }
                    (failed, met)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("findings are caught")).collect()
    });
    let (failed, met): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    if let Some((seed, wrong)) = failed.into_iter().flatten().min() {
        report(seed, &wrong);
    }
    let met = met.concat();
    for (what, of) in Met::default().named().into_iter().enumerate().map(|(i, (what, _))| (what, i)) {
        let times: u64 = met.iter().map(|met| met.named()[of].1).sum();
        println!("with a long memory ({} sequences): {what}: {times}", met.len());
        // (A few sequences may miss it.)
        assert!(times > 0 || met.len() < 500, "with a long memory nothing is {what}");
    }
}

#[test]
fn a_seed_run_twice_gives_the_same_trace() {
    for seed in 1..long(20, 200) {
        let sequence = Sequence::of_seed(seed);
        assert_eq!(run(&sequence), run(&sequence), "seed {seed}");
    }
}

#[test]
fn what_has_failed_once_does_not_fail_again() {
    for (name, _, sequence) in regressions::all() {
        let done = run_apart(&sequence, None);
        assert!(done.is_ok(), "{name}: {}", done.unwrap_err());
    }
}

/// The mends that these sequences are about: if one of them is left out, some sequence fails.
const MENDS: [Rule; 16] = [
    Rule::AskAgain,
    Rule::CertainMismatch,
    Rule::CheckpointAsOne,
    Rule::ClearedFirst,
    Rule::CompleteOnUnwind,
    Rule::ExactTimes,
    Rule::FailureEndsAppend,
    Rule::GapsAreKnown,
    Rule::GoOn,
    Rule::HeldBack,
    Rule::LatestAcceptance,
    Rule::LookForDirectory,
    Rule::OneHorizon,
    Rule::ReadingMovesNothing,
    Rule::RefuseAhead,
    Rule::SlidesAsAsked,
];

/// The same, of engines with a long memory.
const MENDS_BEYOND: [Rule; 7] = [
    Rule::BehindIsInDoubt,
    Rule::InsertAgain,
    Rule::SealedFirst,
    Rule::SegmentsAgain,
    Rule::TimeIsSaid,
    Rule::LossIsMarked,
    Rule::VoidAtOnce,
];

/// Checks each mend by a sequence that is kept; or, if `HAPAX_MUTANTS` says how many to try, by
/// those of seeds, which are shrunk.
#[test]
fn each_mend_is_missed_if_it_is_left_out() {
    let sequences = number("HAPAX_MUTANTS", 0);
    let only = std::env::var("HAPAX_MUTANT").ok();
    for mend in MENDS
        .into_iter()
        .chain(MENDS_BEYOND)
        .filter(|mend| only.as_ref().is_none_or(|only| *only == format!("{mend:?}")))
    {
        let kept: Vec<_> = regressions::all().into_iter().filter(|(_, of, _)| *of == Some(mend)).collect();
        let by_kept = kept.iter().find(|(_, _, sequence)| run_apart(sequence, Some(mend)).is_err());
        let by_seed = (1..=sequences).find(|&seed| run_apart(&Sequence::of_seed(seed), Some(mend)).is_err());
        if let Some(seed) = by_seed {
            let fails = |sequence: &Sequence| run_apart(sequence, Some(mend)).is_err();
            let shrunk = shrink::shrink(&Sequence::of_seed(seed), fails);
            let why = run_apart(&shrunk, Some(mend)).unwrap_err();
            println!("{mend:?}: seed {seed}, shrunk to {shrunk:?}: {why}");
        }
        if sequences == 0 {
            assert!(by_kept.is_some(), "nobody misses {mend:?}");
        }
    }
}
