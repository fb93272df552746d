//! Tables with marks as pictures of their own.

use super::page;
use super::table::Table;
use super::xml::{Page, Text};
use crate::measure::Report;

const WIDTH: usize = 760;
const ROW: usize = 24;
/// The widths of a letter, and of the figures next to the marks.
const LETTER: usize = 7;
const FIGURES: usize = 190;

/// Returns all tables of a report that have marks, as pictures for a README: their names and their
/// contents. They follow the reader's light or dark scheme, need no other file, and describe what
/// they show.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let report = Report::from_json(&std::fs::read_to_string("tests/integration/report/small.json")?)?;
/// for (name, svg) in render::svg(&report) {
///     assert!(name.ends_with(".svg") && svg.starts_with("<svg"));
/// }
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
pub fn svg(report: &Report) -> Vec<(String, String)> {
    let sections = page::Page::of(report).sections;
    let tables = sections.iter().flat_map(|section| section.tables.iter().map(move |table| (&section.title, table)));
    tables.filter_map(|(title, table)| Some((format!("{}.svg", table.id), drawn(title, table)?))).collect()
}

fn drawn(title: &str, table: &Table) -> Option<String> {
    let axis = table.axis.as_ref()?;
    let longest = table.rows.iter().map(|row| row.name.chars().count()).max()?;
    let left = (longest * LETTER + 14).min(WIDTH / 2);
    let (marks, height) = (WIDTH - left - FIGURES, (table.rows.len() + 1) * ROW + 8);
    let mut page = Page::default();
    page.add(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="marks" role="img" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"><title>{}</title><desc>{} {}</desc><style>{}</style>"#,
        Text(title),
        Text(&table.caption),
        Text(table.legend),
        include_str!("marks.css")
    ));
    let mut line = |i: usize, class: &str, inner: &str| {
        let y = i * ROW;
        page.add(format_args!(
            r#"<svg class="{class}" x="{left}" y="{y}" width="{marks}" height="{ROW}" overflow="visible">{inner}</svg>"#
        ));
    };
    line(0, "axis", &axis.labels());
    for (i, row) in table.rows.iter().enumerate() {
        line(i + 1, if row.ours { "ours" } else { "other" }, &axis.drawn(&row.marks));
    }
    for (i, row) in table.rows.iter().enumerate() {
        let (y, strong) = (i * ROW + ROW + 16, if row.ours { " strong" } else { "" });
        page.add(format_args!(r#"<text class="name{strong}" y="{y}">{}</text>"#, Text(&row.name)));
        let said = row.marks.said(axis.number);
        if !said.is_empty() {
            page.add(format_args!(r#"<text x="{}" y="{y}">{}</text>"#, left + marks + 14, Text(&said)));
        }
    }
    page.add(format_args!("</svg>\n"));
    Some(page.into_string())
}
