//! Estimates how long a comparison takes, to announce it.

use hapax_bench::measure::workload::window_checks;
use hapax_bench::measure::{Row, Shape, Sort};
use std::time::Duration;

/// Returns about how long all runs of some rows take, on a machine of 2026. `events` are those of a
/// trace.
pub fn estimate(rows: &[Row], rounds: u32, quick: bool, events: usize) -> Duration {
    let seconds: f64 = rows.iter().map(|row| seconds_of(row, quick, events as f64)).sum();
    Duration::try_from_secs_f64(seconds * f64::from(rounds)).unwrap_or(Duration::MAX)
}

fn seconds_of(row: &Row, quick: bool, events: f64) -> f64 {
    let setting = &row.setting;
    let (window_ids, windows) = match (&setting.workload.shape, row.sort) {
        (Shape::Trace { .. }, _) => (events, 1.0),
        (_, Sort::Filter) => (window_checks(setting), 1.0),
        _ => (window_checks(setting), 6.0),
    };
    let stream = windows * window_ids * 40e-9;
    let process = 0.05;
    let paced = |limit: f64| setting.rate.map(|rate| (2.0 * window_ids / rate).min(limit));
    match row.sort {
        Sort::Durable | Sort::Server => {
            let start = if row.sort == Sort::Server { 1.5 } else { 0.1 };
            let (warm_up, measured) = if quick { (0.15, 0.35) } else { (0.5, 1.5) };
            process + start + warm_up + paced(if quick { 1.0 } else { 3.0 }).map_or(measured, |due| 2.0 * due)
        }
        _ => {
            let check = if row.sort == Sort::Window { 150e-9 } else { 60e-9 };
            process + stream + paced(3.0).unwrap_or(0.0) + windows * window_ids * check
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_bench::measure::Setting;

    #[test]
    fn more_of_everything_takes_longer() {
        let row = |sort, setting| Row {
            strategy: String::new(),
            sort,
            setting,
            runs: Vec::new(),
            failures: Vec::new(),
            may_miss: 0.0,
            may_invent: 0.0,
        };
        let of = |row: Row, rounds, quick| estimate(&[row], rounds, quick, 0);
        let small = || row(Sort::Window, Setting::default());
        assert!(of(small(), 4, false) > of(small(), 3, false));
        assert!(
            of(row(Sort::Window, Setting { live: 10_000_000, ..Setting::default() }), 1, false) > of(small(), 1, false)
        );
        assert!(
            of(row(Sort::Server, Setting::default()), 1, false) > of(row(Sort::Server, Setting::default()), 1, true)
        );
        let paced = Setting { rate: Some(100_000.0), ..Setting::default() };
        assert!(of(row(Sort::Window, paced), 1, false) > of(small(), 1, false) + Duration::from_secs(2));
    }
}
