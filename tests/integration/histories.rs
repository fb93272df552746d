//! Recorded histories: threads on the real engine, and a checker that looks for an order in which
//! every answer is right.
//!
//! A million and a half operations, ten million with `HAPAX_LONG`, or `HAPAX_HISTORIES_OPERATIONS`,
//! from `HAPAX_HISTORIES_SEED`; `scripts/histories` runs a campaign.

use testkit::{corpus, long};

use crate::fuzzed::threads;
use hapax::{Builder, Dedup, Unconfirmed};
use hapax_testing::{Clocks, Problem, Report, Semantics, Workload, verify};
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_millis(100);

/// The window by real clocks: no thread is kept waiting for that long, on no machine. (What a stall
/// of a window can do is in docs/testing.md. By virtual clocks threads wait for each other.)
const PATIENT: Duration = Duration::from_secs(3_600);

/// A configuration of the engine and a way to use it.
struct Case {
    name: &'static str,
    engine: Builder,
    semantics: Semantics,
    workload: Workload,
}

/// Builds an engine with room for the ids of a window.
fn engine() -> Builder {
    Dedup::builder().window(WINDOW).capacity(200_000)
}

fn workload() -> Workload {
    // (So that the few operations of a short run take some windows, too.)
    let operations_per_window = long(10_000, 100_000);
    Workload { forgets: 2, operations_per_window, ..Workload::of_window(WINDOW) }
}

fn cases() -> Vec<Case> {
    let semantics = Semantics::of_hapax(WINDOW);
    let horizon = WINDOW * 4;
    // The rate of wrong guesses is so low that none is expected in a campaign.
    let history =
        |unconfirmed| engine().history(hapax::History { unconfirmed, ..testkit::history(horizon, 1e-13, 400_000) });
    let patient = Semantics::of_hapax(PATIENT);
    let real_clocks = Workload { clocks: Clocks::Real(Instant::now()), window: PATIENT, ..workload() };
    let drift = workload().operations_per_window / 8 / 4;
    let case = |name, engine, semantics, workload| Case { name, engine, semantics, workload };
    vec![
        case("window", engine(), semantics, workload()),
        case("one by one", engine(), semantics, Workload { batches: 0, forgets: 0, threads: 2, ..workload() }),
        case(
            "refreshing",
            engine().refresh_on_duplicate(true),
            Semantics { refresh_on_duplicate: true, ..semantics },
            workload(),
        ),
        // The smallest table there is, and ten times as many ids.
        case("full", engine().capacity(1).max_memory_bytes(64 << 10), semantics, workload()),
        case("growing", engine().capacity(1), semantics, Workload { forgets: 10, ..workload() }),
        case("history, unconfirmed is fresh", history(Unconfirmed::Fresh), semantics, workload()),
        // An id that the history may know is a duplicate, for a horizon at least; and it cannot
        // forget single ids.
        case(
            "history, unconfirmed is a duplicate",
            history(Unconfirmed::Duplicate),
            Semantics { window: horizon, slack: Duration::MAX, ..semantics },
            Workload { forgets: 0, ..workload() },
        ),
        case("real clocks", engine().window(PATIENT), patient, real_clocks.clone()),
        case(
            "real clocks that differ by half a window",
            engine().window(PATIENT),
            patient,
            Workload { skew: PATIENT / 2, ..real_clocks },
        ),
        case("claims", engine(), semantics, Workload { claims: 20, ..workload() }),
        case(
            "claims, one by one",
            engine(),
            semantics,
            Workload { claims: 30, batches: 0, forgets: 0, ids: 10_000, ..workload() },
        ),
        case(
            "claims, full",
            engine().capacity(1).max_memory_bytes(64 << 10),
            semantics,
            Workload { claims: 20, ..workload() },
        ),
        case(
            "claims and a history",
            history(Unconfirmed::Fresh),
            semantics,
            Workload { claims: 10, ids: 2_000, ..workload() },
        ),
        case("claims, growing", engine().capacity(1), semantics, Workload { claims: 10, forgets: 10, ..workload() }),
        case(
            "many threads that drift apart",
            engine(),
            semantics,
            // (By a quarter of a window at most: the system may keep a thread waiting for long.)
            Workload { threads: 8, meet_every: drift, skew: WINDOW / 5, ..workload() },
        ),
    ]
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn run(case: Case, operations: u64, seed: u64) -> Report {
    let dedup = case.engine.build().expect("these options are valid");
    let workload = Workload { operations, seed, ..case.workload };
    let start = Instant::now();
    match verify(&dedup, &workload, &case.semantics) {
        Ok(report) => {
            println!("{}: {report}; {:.1?}", case.name, start.elapsed());
            report
        }
        Err(violation) => panic!("{}, seed {seed}: {violation}\n{dedup:?}\n{workload:?}", case.name),
    }
}

#[test]
fn every_recorded_history_is_right() {
    let operations = variable("HAPAX_HISTORIES_OPERATIONS", long(600_000, 10_000_000));
    let seed = variable("HAPAX_HISTORIES_SEED", 1);
    let cases = cases();
    let share = operations.div_ceil(cases.len() as u64).next_multiple_of(8);
    let start = Instant::now();
    println!("seed {seed}");
    let (mut checked, mut overlapping) = (0, 0);
    for case in cases {
        let (is_full, claims) = (case.name == "full", case.workload.claims > 0);
        let report = run(case, share, seed);
        assert!(report.fresh > 0 && report.duplicates > 0, "{report}");
        assert!(!is_full || report.needed_evictions > 0, "a full table evicts what is asked for again: {report}");
        assert!(!claims || (report.claimed > 0 && report.in_progress > 0), "claims meet checks: {report}");
        checked += report.operations;
        overlapping += report.overlapping;
    }
    println!(
        "{checked} operations, {overlapping} overlapping another one on the same id, all right; {:.1?}",
        start.elapsed()
    );
    assert!(checked >= operations);
}

#[test]
fn threads_are_answered_right_on_the_corpus() {
    let (mut operations, mut duplicates, mut evicted) = (0, 0, 0);
    let files = corpus::replay("threads", |bytes| {
        if let Some(report) = threads::fuzz(bytes) {
            operations += report.operations;
            duplicates += report.duplicates;
            evicted += report.counted_evictions;
        }
    });
    println!("{files} files: {operations} operations, {duplicates} duplicates, {evicted} evicted");
    assert!(files == 0 || (duplicates > 0 && evicted > 0), "the corpus has been outgrown by the format");
}

/// Each call under way that forgets an id doubled the number of orders once, and so did each call
/// after it: the checker gave up on all of the first kind, and on one in seventy of the second.
/// It may give up on one in ten: how many calls overlap is the machine's.
#[test]
fn much_forgetting_of_few_ids_is_decided() {
    let batches =
        Workload { threads: 8, forgets: 30, ids: 20, batches: 90, batch_max: 128, meet_every: 0, ..workload() };
    let single = Workload { ids: 2, batches: 50, meet_every: 64, ..batches.clone() };
    let (seeds, mut undecided) = (long(5, 100), 0);
    for seed in 1..=seeds {
        for (name, workload) in [("forgetting", &batches), ("forgetting two", &single)] {
            let workload = Workload { operations: 30_000, seed, ..workload.clone() };
            match verify(&engine().build().unwrap(), &workload, &Semantics::of_hapax(WINDOW)) {
                Err(violation) if violation.problem == Problem::TooManyOrders => undecided += 1,
                report => println!("{name}, seed {seed}: {}", report.unwrap_or_else(|violation| panic!("{violation}"))),
            }
        }
    }
    println!("{undecided} of {} were not decided", 2 * seeds);
    assert!(undecided <= seeds / 5);
}
