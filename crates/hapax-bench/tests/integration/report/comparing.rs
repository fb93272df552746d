//! The differences that count as a change.

use crate::report::fixture;
use hapax_bench::measure::{Change, Figure, Report, compare};

/// Sets the speed of each run of a row, in nanoseconds an id.
fn set_nanos(report: &mut Report, strategy: &str, nanos: &[u64]) {
    let row = report.rows.iter_mut().find(|row| row.strategy == strategy).unwrap();
    let run = row.runs[0].clone();
    row.runs = nanos
        .iter()
        .map(|nanos| hapax_bench::measure::Measurement { nanos: run.checks * nanos, ..run.clone() })
        .collect();
}

fn pair(old: &[u64], new: &[u64]) -> (Report, Report) {
    let (mut a, mut b) = (fixture::small(), fixture::small());
    set_nanos(&mut a, "DashMap", old);
    set_nanos(&mut b, "DashMap", new);
    (a, b)
}

#[test]
fn the_same_report_has_not_changed() {
    let report = fixture::report(1);
    let comparison = compare(&report, &report);
    assert!(comparison.changes.is_empty() && comparison.vanished.is_empty() && comparison.new.is_empty());
    assert!(comparison.machines.is_empty() && comparison.untold == 0);
    assert!(comparison.figures > report.rows.len());
    assert!(comparison.to_string().contains("0 of "));
}

#[test]
fn faster_in_all_runs_is_faster() {
    let (old, new) = pair(&[100, 104, 102], &[90, 91, 92]);
    let comparison = compare(&old, &new);
    let [changed] = &comparison.changes[..] else { panic!("{comparison}") };
    assert_eq!((changed.figure, changed.change), (Figure::IdsPerSecond, Change::Better));
    assert!(changed.new / changed.old > 1.1);
    assert_eq!(compare(&new, &old).changes[0].change, Change::Worse);
    // 2 of 20 orders of three and three.
    assert!((comparison.by_chance - 0.1).abs() < 1e-12);
}

#[test]
fn overlapping_runs_are_noise() {
    let (old, new) = pair(&[100, 104, 130], &[90, 91, 101]);
    assert!(compare(&old, &new).changes.is_empty());
}

#[test]
fn less_than_three_percent_is_noise() {
    let (old, new) = pair(&[1000, 1001, 1002], &[1020, 1021, 1022]);
    assert!(compare(&old, &new).changes.is_empty());
}

#[test]
fn two_runs_tell_nothing() {
    let (old, new) = pair(&[100, 101], &[50, 51, 52]);
    let comparison = compare(&old, &new);
    assert!(comparison.changes.is_empty() && comparison.untold > 0);
    assert!(comparison.to_string().contains("cannot be told"), "{comparison}");
}

#[test]
fn wrong_answers_change_when_their_intervals_are_apart() {
    let (mut old, mut new) = (fixture::small(), fixture::small());
    let set = |report: &mut Report, missed: u64| {
        let row = report.rows.iter_mut().find(|row| row.strategy == "hapax window").unwrap();
        for run in &mut row.runs {
            (run.answers.missed, run.answers.duplicates) = (missed, 1_000_000);
        }
    };
    set(&mut old, 2);
    set(&mut new, 5);
    // 6 and 15 of three million may be the same.
    assert!(compare(&old, &new).changes.is_empty());
    set(&mut new, 40);
    let comparison = compare(&old, &new);
    let [changed] = &comparison.changes[..] else { panic!("{comparison}") };
    assert_eq!((changed.figure, changed.change), (Figure::Missed, Change::Worse));
}

#[test]
fn latency_and_memory_too() {
    let (mut old, mut new) = (fixture::report(1), fixture::report(1));
    for (report, factor) in [(&mut old, 1), (&mut new, 2)] {
        for run in report.rows.iter_mut().filter(|row| row.strategy == "scc").flat_map(|row| &mut row.runs) {
            run.bytes *= factor;
            run.latency
                .iter_mut()
                .flat_map(|latency| &mut latency.quantiles)
                .for_each(|quantile| quantile.nanos *= factor);
        }
    }
    let found: Vec<Figure> = compare(&old, &new).changes.iter().map(|changed| changed.figure).collect();
    assert!(found.contains(&Figure::P99) && found.contains(&Figure::BytesPerId), "{found:?}");
    assert!(compare(&old, &new).changes.iter().all(|changed| changed.change == Change::Worse && changed.name == "scc"));
}

#[test]
fn what_came_what_went_and_where() {
    let (mut old, mut new) = (fixture::small(), fixture::small());
    old.rows.retain(|row| row.strategy != "DashMap");
    new.rows.retain(|row| row.strategy != "hapax window");
    new.machine.processor = "another one".into();
    let comparison = compare(&old, &new);
    assert!(comparison.vanished[0].starts_with("hapax window: 1 M live ids"), "{:?}", comparison.vanished);
    assert!(comparison.new[0].starts_with("DashMap"), "{:?}", comparison.new);
    assert_eq!(comparison.machines, ["processor: A processor, 2.1 GHz before, another one now"]);
    let text = comparison.to_string();
    assert!(text.contains("machines differ") && text.contains("not measured now: hapax window"), "{text}");
}
