//! The charts as files.

use super::charts::sections;
use super::view::View;
use crate::measure::Report;

/// Returns all charts of a report, as files for a README: their names and their contents. They
/// follow the reader's light or dark scheme, need no other file, and describe what they show.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let report = Report::from_json(&std::fs::read_to_string("tests/report/small.json")?)?;
/// for (name, svg) in render::svg(&report) {
///     assert!(name.ends_with(".svg") && svg.starts_with("<svg"));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn svg(report: &Report) -> Vec<(String, String)> {
    let charts = sections(&View::of(report)).into_iter().flat_map(|section| section.charts);
    charts.map(|chart| (format!("{}.svg", chart.id), chart.file())).collect()
}
