//! The report as an HTML page.

use super::page::{self, Section};
use super::table::{Row, Table};
use super::xml::{Page, Text};
use crate::measure::Report;

/// Returns the report as one HTML page without any script or external resource, which is also
/// well-formed XML: the answer in a few sentences, all strategies side by side, all measurements,
/// and the information to repeat them. For light and dark, phones and paper.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let report = Report::from_json(&std::fs::read_to_string("tests/integration/report/small.json")?)?;
/// let page = render::html(&report);
/// assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("<script"));
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
///
/// The page forbids itself any request by its content security policy.
pub fn html(report: &Report) -> String {
    let said = page::Page::of(report);
    let mut page = Page::default();
    page.add(format_args!(
        include_str!("head.html"),
        title = Text(&said.title),
        page_css = include_str!("page.css"),
        marks_css = include_str!("marks.css"),
        lead = Text(&said.lead)
    ));
    for warning in &said.warnings {
        page.add(format_args!("<p class=\"warning\"><strong>Note:</strong> {}</p>\n", Text(warning)));
    }
    page.add(format_args!("</header>\n"));
    let (first, others) = said.sections.split_at(said.sections.len().min(1));
    first.iter().for_each(|it| section(&mut page, it));
    page.add(format_args!("<nav aria-label=\"Sections\"><ul>\n"));
    for section in others.iter().filter(|section| !section.is_part) {
        page.add(format_args!("<li><a href=\"#{}\">{}</a></li>\n", section.id, Text(&section.title)));
    }
    page.add(format_args!("</ul></nav>\n"));
    others.iter().for_each(|it| section(&mut page, it));
    page.add(format_args!("</body>\n</html>\n"));
    page.into_string()
}

fn section(page: &mut Page, section: &Section) {
    let level = if section.is_part { 3 } else { 2 };
    page.add(format_args!("<section id=\"{}\">\n<h{level}>{}</h{level}>\n", section.id, Text(&section.title)));
    list(page, "sentences", &section.sentences);
    section.tables.iter().for_each(|it| table(page, &section.title, it));
    list(page, "notes", &section.notes);
    if !section.terms.is_empty() {
        page.add(format_args!("<dl>\n"));
        for (name, value) in &section.terms {
            page.add(format_args!("<dt>{}</dt><dd>{}</dd>\n", Text(name), Text(value)));
        }
        page.add(format_args!("</dl>\n"));
    }
    if let Some(command) = &section.command {
        page.add(format_args!("<pre tabindex=\"0\"><code>{}</code></pre>\n", Text(command)));
    }
    page.add(format_args!("</section>\n"));
}

fn list(page: &mut Page, class: &str, items: &[String]) {
    if !items.is_empty() {
        page.add(format_args!("<ul class=\"{class}\">\n"));
        items.iter().for_each(|item| page.add(format_args!("<li>{}</li>\n", Text(item))));
        page.add(format_args!("</ul>\n"));
    }
}

fn table(page: &mut Page, title: &str, table: &Table) {
    if !table.caption.is_empty() {
        page.add(format_args!("<p class=\"quiet\">{} {}</p>\n", Text(&table.caption), Text(table.legend)));
    }
    let class = if table.axis.is_some() { "drawn" } else { "plain" };
    page.add(format_args!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table id=\"{}\" class=\"{class}\">\n<thead><tr><th scope=\"col\">strategy</th>",
        Text(title),
        table.id
    ));
    if let Some(axis) = &table.axis {
        page.add(format_args!(
            "<th scope=\"col\" class=\"marks\"><svg aria-hidden=\"true\">{}</svg></th>",
            axis.labels()
        ));
    }
    table.head.iter().for_each(|head| page.add(format_args!("<th scope=\"col\">{}</th>", Text(head))));
    page.add(format_args!("</tr></thead>\n<tbody>\n"));
    table.rows.iter().for_each(|it| row(page, table, it));
    page.add(format_args!("</tbody>\n</table></div>\n"));
}

fn row(page: &mut Page, table: &Table, row: &Row) {
    let class = if row.ours { "ours" } else { "other" };
    page.add(format_args!("<tr class=\"{class}\"><th scope=\"row\">{}</th>", Text(&row.name)));
    if let Some(axis) = &table.axis {
        page.add(format_args!("<td class=\"marks\">"));
        let said = row.marks.said(axis.number);
        if !said.is_empty() {
            let (said, drawn) = (Text(&said), axis.drawn(&row.marks));
            page.add(format_args!("<svg role=\"img\" aria-label=\"{said}\">{drawn}</svg>"));
        }
        page.add(format_args!("</td>"));
    }
    for (head, cell) in table.head.iter().zip(&row.cells) {
        page.add(format_args!("<td data-head=\"{}\">{}</td>", Text(head), Text(cell)));
    }
    page.add(format_args!("</tr>\n"));
}
