//! A CSV file with one line a run, for programs.

use crate::measure::{Latency, Measurement, Report, Row, Shape};

/// One run of a row, or a failure of it.
struct Line<'r> {
    row: &'r Row,
    run: Option<(usize, &'r Measurement)>,
    failure: &'r str,
}

/// A column: its name and its field.
type Column = (&'static str, fn(&Line) -> String);

/// The columns, in this order; new ones come at the end.
const COLUMNS: [Column; 39] = [
    ("strategy", |line| line.row.strategy.clone()),
    ("sort", |line| name_of(&line.row.sort)),
    ("shape", |line| match &line.row.setting.workload.shape {
        Shape::Zipf { .. } => "zipf".into(),
        Shape::Trace { .. } => "trace".into(),
        plain => name_of(plain),
    }),
    ("zipf_exponent", |line| match &line.row.setting.workload.shape {
        Shape::Zipf { exponent } => exponent.to_string(),
        _ => String::new(),
    }),
    ("trace_path", |line| match &line.row.setting.workload.shape {
        Shape::Trace { path } => path.display().to_string(),
        _ => String::new(),
    }),
    ("duplicates_share", |line| line.row.setting.workload.duplicates.to_string()),
    ("distance_windows", |line| line.row.setting.workload.distance_windows.to_string()),
    ("ids", |line| name_of(&line.row.setting.ids)),
    ("live_ids", |line| line.row.setting.live.to_string()),
    ("threads", |line| line.row.setting.threads.to_string()),
    ("batch_ids", |line| line.row.setting.batch.to_string()),
    ("think_nanos", |line| line.row.setting.think_nanos.to_string()),
    ("rate_ids_per_second", |line| optional(line.row.setting.rate)),
    ("budget_bytes", |line| optional(line.row.setting.budget_bytes)),
    ("may_miss_share", |line| line.row.may_miss.to_string()),
    ("may_invent_share", |line| line.row.may_invent.to_string()),
    ("run", |line| optional(line.run.map(|(number, _)| number))),
    ("failure", |line| line.failure.into()),
    ("checks", |line| figure(line, |run| Some(run.checks))),
    ("nanos", |line| figure(line, |run| Some(run.nanos))),
    ("cpu_nanos", |line| figure(line, |run| Some(run.cpu_nanos))),
    ("server_cpu_nanos", |line| figure(line, |run| run.server_cpu_nanos)),
    ("start_nanos", |line| figure(line, |run| Some(run.start_nanos))),
    ("pause_nanos", |line| figure(line, |run| Some(run.pause_nanos))),
    ("clock_nanos", |line| figure(line, |run| Some(run.clock_nanos))),
    ("bytes", |line| figure(line, |run| line.row.bytes(run))),
    ("beside_bytes", |line| figure(line, |run| run.beside_bytes)),
    ("held_ids", |line| figure(line, |run| Some(run.held))),
    ("evicted_ids", |line| figure(line, |run| run.evicted)),
    ("fresh", |line| figure(line, |run| Some(run.answers.fresh))),
    ("invented", |line| figure(line, |run| Some(run.answers.invented))),
    ("duplicates", |line| figure(line, |run| Some(run.answers.duplicates))),
    ("missed", |line| figure(line, |run| Some(run.answers.missed))),
    ("reached_ids_per_second", |line| figure(line, |run| Some(run.latency.as_ref()?.reached))),
    ("p50_nanos", |line| latency(line, |latency| latency.at(0.5))),
    ("p99_nanos", |line| latency(line, |latency| latency.at(0.99))),
    ("p99_9_nanos", |line| latency(line, |latency| latency.at(0.999))),
    ("p99_99_nanos", |line| latency(line, |latency| latency.at(0.9999))),
    ("max_nanos", |line| latency(line, |latency| latency.quantiles.iter().map(|quantile| quantile.nanos).max())),
];

/// Returns one line a run, after RFC 4180, with a header whose names have units. A run that failed
/// has its message in `failure`, and no figures. Numbers are as exact as in the report; a field
/// without a measurement is empty.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let report = Report::from_json(&std::fs::read_to_string("tests/integration/report/small.json")?)?;
/// assert!(render::csv(&report).starts_with("strategy,sort,shape,"));
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
///
/// Text is unchanged: a spreadsheet may take a strategy's name that begins with `=` for a formula.
pub fn csv(report: &Report) -> String {
    let mut table = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
    // All lines have as many fields, and writing to memory does not fail, so there is no error to
    // report.
    let mut all = table.write_record(COLUMNS.map(|(name, _)| name)).is_ok();
    for row in &report.rows {
        let runs = row.runs.iter().enumerate().map(|(i, run)| Line { row, run: Some((i + 1, run)), failure: "" });
        let failures = row.failures.iter().map(|failure| Line { row, run: None, failure });
        for line in runs.chain(failures) {
            all &= table.write_record(COLUMNS.map(|(_, field)| field(&line))).is_ok();
        }
    }
    debug_assert!(all);
    table.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

fn figure<T: ToString>(line: &Line, of: impl Fn(&Measurement) -> Option<T>) -> String {
    optional(line.run.and_then(|(_, run)| of(run)))
}

fn latency(line: &Line, of: fn(&Latency) -> Option<u64>) -> String {
    figure(line, |run| of(run.latency.as_ref()?))
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
