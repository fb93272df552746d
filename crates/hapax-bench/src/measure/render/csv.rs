//! A CSV file with one line a run, for programs.

use super::view::QUANTILES;
use crate::measure::{Latency, Measurement, Report, Row, Setting, Shape};

/// The columns, in this order; new ones come at the end.
const HEADER: [&str; 39] = [
    "strategy",
    "sort",
    "shape",
    "zipf_exponent",
    "trace_path",
    "duplicates_share",
    "distance_windows",
    "ids",
    "live_ids",
    "threads",
    "batch_ids",
    "think_nanos",
    "rate_ids_per_second",
    "budget_bytes",
    "may_miss_share",
    "may_invent_share",
    "run",
    "failure",
    "checks",
    "nanos",
    "cpu_nanos",
    "server_cpu_nanos",
    "start_nanos",
    "pause_nanos",
    "clock_nanos",
    "bytes",
    "beside_bytes",
    "held_ids",
    "evicted_ids",
    "fresh",
    "invented",
    "duplicates",
    "missed",
    "reached_ids_per_second",
    "p50_nanos",
    "p99_nanos",
    "p99_9_nanos",
    "p99_99_nanos",
    "max_nanos",
];

/// Returns one line a run, after RFC 4180, with a header whose names have units. A run that failed
/// has its message in `failure`, and no figures. Numbers are as exact as in the report; a field
/// without a measurement is empty.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let report = Report::from_json(&std::fs::read_to_string("tests/report/small.json")?)?;
/// assert!(render::csv(&report).starts_with("strategy,sort,shape,"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Text is unchanged: a spreadsheet may take a strategy's name that begins with `=` for a formula.
pub fn csv(report: &Report) -> String {
    let mut table = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
    // All lines have as many fields, and writing to memory does not fail, so there is no error to
    // report.
    let mut write = |fields: &[String]| table.write_record(fields).is_ok();
    let mut all = write(&HEADER.map(String::from));
    for row in &report.rows {
        for (run, measurement) in row.runs.iter().enumerate() {
            all &= write(&line(row, &(run + 1).to_string(), "", Some(measurement)));
        }
        for failure in &row.failures {
            all &= write(&line(row, "", failure, None));
        }
    }
    debug_assert!(all);
    table.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

fn line(row: &Row, run: &str, failure: &str, measurement: Option<&Measurement>) -> Vec<String> {
    let mut fields = vec![row.strategy.clone(), name_of(&row.sort)];
    fields.extend(setting(&row.setting));
    fields.extend([row.may_miss.to_string(), row.may_invent.to_string(), run.into(), failure.into()]);
    fields.extend(measurement.map(|run| figures(row, run)).unwrap_or_default());
    fields.resize(HEADER.len(), String::new());
    fields
}

fn setting(setting: &Setting) -> [String; 12] {
    let workload = &setting.workload;
    let (shape, exponent, path) = match &workload.shape {
        Shape::Zipf { exponent } => ("zipf".into(), exponent.to_string(), String::new()),
        Shape::Trace { path } => ("trace".into(), String::new(), path.display().to_string()),
        plain => (name_of(plain), String::new(), String::new()),
    };
    [
        shape,
        exponent,
        path,
        workload.duplicates.to_string(),
        workload.distance_windows.to_string(),
        name_of(&setting.ids),
        setting.live.to_string(),
        setting.threads.to_string(),
        setting.batch.to_string(),
        setting.think_nanos.to_string(),
        optional(setting.rate),
        optional(setting.budget_bytes),
    ]
}

fn figures(row: &Row, run: &Measurement) -> Vec<String> {
    let latency = |of: f64| optional(run.latency.as_ref().and_then(|latency| latency.at(of)));
    let mut figures = vec![
        run.checks.to_string(),
        run.nanos.to_string(),
        run.cpu_nanos.to_string(),
        optional(run.server_cpu_nanos),
        run.start_nanos.to_string(),
        run.pause_nanos.to_string(),
        run.clock_nanos.to_string(),
        optional(row.bytes(run)),
        optional(run.beside_bytes),
        run.held.to_string(),
        optional(run.evicted),
        run.answers.fresh.to_string(),
        run.answers.invented.to_string(),
        run.answers.duplicates.to_string(),
        run.answers.missed.to_string(),
        optional(run.latency.as_ref().map(|latency| latency.reached)),
    ];
    figures.extend(QUANTILES.map(|(of, _)| latency(of)));
    figures.push(optional(run.latency.as_ref().and_then(longest)));
    figures
}

fn longest(latency: &Latency) -> Option<u64> {
    latency.quantiles.iter().map(|quantile| quantile.nanos).max()
}

/// Returns the name that a unit variant has in JSON, too.
fn name_of(variant: &impl serde::Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
