//! The report as text, for a terminal.

use super::page::{Page, Table};
use crate::measure::Report;
use std::fmt::Write as _;

/// The longest name, twice as long as any of ours in any way of being used; a longer one is cut.
const NAME_MAX: usize = 120;

/// Returns the whole report as text: which strategy to take, a table for each setting, the fastest
/// first, then the strategies that were not measured, the machine, and the command.
///
/// ```
/// use hapax_bench::measure::{Effort, Setting, measure_with_others, render};
/// # use hapax::Timestamp;
/// # use hapax_bench::strategy::{Failure, Plan, Sort, Strategy};
/// # struct Forgetful;
/// # impl Strategy<u64> for Forgetful {
/// #     const NAME: &'static str = "forgetful";
/// #     const SORT: Sort = Sort::Window;
/// #     fn new(_plan: &Plan) -> Result<Self, Failure> { Ok(Forgetful) }
/// #     fn check(&self, _id: &u64, _now: Timestamp) -> bool { true }
/// # }
///
/// let setting = Setting { live: 2_000, ..Setting::default() };
/// let report = measure_with_others::<Vec<u64>, Forgetful>(&setting, &["DashMap"], 1, 17, Effort::Quick)?;
/// let table = render::table(&report);
/// assert!(table.contains("More wrong answers than promised: forgetful.") && table.contains("DashMap"));
/// # Ok::<(), Failure>(())
/// ```
pub fn table(report: &Report) -> String {
    let page = Page::of(report);
    let mut text = String::new();
    for line in page.warnings.iter().chain([&page.lead]).chain(&page.sentences) {
        add(&mut text, line);
    }
    for table in &page.tables {
        add(&mut text, "");
        add(&mut text, &format!("{}:", table.title));
        rows(&mut text, table);
        table.failures.iter().for_each(|line| add(&mut text, line));
    }
    add(&mut text, "");
    for (name, value) in &page.terms {
        add(&mut text, &format!("{name}: {value}"));
    }
    text
}

/// Adds a table: names to the left, figures to the right.
fn rows(text: &mut String, table: &Table) {
    let head: Vec<String> = table.head.iter().map(|head| head.to_string()).collect();
    let lines: Vec<(String, &[String])> = [(String::new(), &head[..])]
        .into_iter()
        .chain(table.rows.iter().map(|(name, _, cells)| (cut(name), &cells[..])))
        .collect();
    let names = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = |i: usize| lines.iter().map(|(_, cells)| cells[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for (name, cells) in lines {
        let mut line = format!("{name:<names$}");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(line, "  {cell:>width$}"); // a string takes everything
        }
        add(text, line.trim_end());
    }
}

fn cut(name: &str) -> String {
    if name.chars().count() > NAME_MAX { name.chars().take(NAME_MAX - 1).chain(['…']).collect() } else { name.into() }
}

/// Adds a line, without characters that a terminal would obey.
fn add(text: &mut String, line: &str) {
    text.extend(line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).chain(['\n']));
}
