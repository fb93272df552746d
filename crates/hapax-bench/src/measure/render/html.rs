//! The report as an HTML page.

use super::escaped::Text;
use super::page::{Page, Table};
use super::picture::pictures;
use crate::measure::Report;

/// Returns the report as one HTML page without any script or external resource, which is also
/// well-formed XML: which strategy to take, pictures, all figures, and the information to repeat
/// them. The page forbids itself any request by its content security policy.
pub fn html(report: &Report) -> String {
    let said = Page::of(report);
    let mut page = format!(
        include_str!("head.html"),
        title = Text(said.title),
        css = include_str!("page.css"),
        lead = Text(&said.lead)
    );
    let mut add = |markup: String| page += &markup;
    said.warnings.iter().for_each(|text| add(format!("<p><strong>{}</strong></p>\n", Text(text))));
    said.sentences.iter().for_each(|text| add(format!("<p>{}</p>\n", Text(text))));
    for picture in pictures(report) {
        add(format!("<figure>{}</figure>\n", picture.svg()));
    }
    said.tables.iter().for_each(|it| add(table(it)));
    add("<dl>\n".into());
    for (name, value) in &said.terms {
        add(format!("<dt>{}</dt><dd>{}</dd>\n", Text(name), Text(value)));
    }
    add("</dl>\n</body>\n</html>\n".into());
    page
}

fn table(table: &Table) -> String {
    let cells = |cells: &[String]| cells.iter().map(|cell| format!("<td>{}</td>", Text(cell))).collect::<String>();
    let head: String = table.head.iter().map(|head| format!("<th scope=\"col\">{}</th>", Text(head))).collect();
    let rows = table.rows.iter().map(|(name, ours, figures)| {
        let class = if *ours { "ours" } else { "other" };
        format!("<tr class=\"{class}\"><th scope=\"row\">{}</th>{}</tr>\n", Text(name), cells(figures))
    });
    let rows: String = rows.collect();
    let failures: String = table.failures.iter().map(|text| format!("<p>{}</p>\n", Text(text))).collect();
    format!(
        "<h2>{}</h2>\n<table>\n<thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n{failures}",
        Text(&table.title)
    )
}
