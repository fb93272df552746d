//! The report as an HTML page.

use super::chart::{CSS, Chart, Figures, Width};
use super::charts::{self, Section};
use super::view::{Group, View};
use super::xml::{Page, Text};
use super::{answer, columns, notes, words};
use crate::measure::{Report, Sort};

/// Returns the report as one HTML page without any script or external resource, which is also
/// well-formed XML: the answer in a few sentences, charts with their figures as text, all
/// measurements, and the information to repeat them. For light and dark, phones and paper.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let report = Report::from_json(&std::fs::read_to_string("tests/report/small.json")?)?;
/// let page = render::html(&report);
/// assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("<script"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The page forbids itself any request by its content security policy.
pub fn html(report: &Report) -> String {
    let view = View::of(report);
    let sections = charts::sections(&view);
    let mut page = Page::default();
    let title = match view.main() {
        Some(main) => format!("Deduplication strategies at {}", words::live(&main.setting)),
        None => "Deduplication strategies".into(),
    };
    page.add(format_args!(
        r#"<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>{}</title>
<style>
{}{CSS}</style>
</head>
<body>
"#,
        Text(&title),
        include_str!("page.css"),
    ));
    head(&mut page, &view, &title, &sections);
    page.add(format_args!("<main>\n"));
    sections.iter().for_each(|it| section(&mut page, it));
    everything(&mut page, &view);
    absent(&mut page, report);
    conditions(&mut page, &view);
    page.add(format_args!("</main>\n</body>\n</html>\n"));
    page.into_string()
}

fn head(page: &mut Page, view: &View, title: &str, sections: &[Section]) {
    let machine = &view.report.machine;
    page.add(format_args!(
        "<header>\n<p class=\"kind\">hapax bench</p>\n<h1>{}</h1>\n<p class=\"lead\">{} on {}, {}. {}.</p>\n",
        Text(title),
        Text(&compared(view)),
        Text(&machine.processor),
        Text(&words::plural(machine.processors, "processor", "processors")),
        Text(&super::numbers::date(view.report.began_unix_seconds)),
    ));
    for warning in notes::warnings(view) {
        page.add(format_args!("<p class=\"warning\"><strong>Note:</strong> {}</p>\n", Text(&warning)));
    }
    let sentences = answer::sentences(view);
    if !sentences.is_empty() {
        page.add(format_args!("<h2 id=\"answer\">The answer</h2>\n<ul class=\"answer\">\n"));
        sentences.iter().for_each(|sentence| page.add(format_args!("<li>{}</li>\n", Text(sentence))));
        page.add(format_args!("</ul>\n"));
    }
    page.add(format_args!("<nav aria-label=\"Sections\"><ul>\n"));
    for section in sections.iter().filter(|section| !section.charts.is_empty()) {
        page.add(format_args!("<li><a href=\"#{0}-section\">{1}</a></li>\n", section.id, section.title));
    }
    page.add(format_args!("<li><a href=\"#everything\">All figures</a></li>\n<li><a href=\"#repeat\">Machine, repeat</a></li>\n</ul></nav>\n</header>\n"));
}

/// Describes what was compared: "9 windows, 3 filters and 4 servers in 12 settings".
fn compared(view: &View) -> String {
    let kinds = [
        (Sort::Window, "window", "windows"),
        (Sort::Filter, "filter", "filters"),
        (Sort::Durable, "durable strategy", "durable strategies"),
        (Sort::Server, "strategy with a server", "strategies with a server"),
    ];
    let count = |sort: Sort| {
        let of_sort = |name: &&&str| view.report.rows.iter().any(|row| row.sort == sort && row.strategy == **name);
        view.strategies().iter().filter(of_sort).count()
    };
    let parts: Vec<String> = kinds
        .into_iter()
        .map(|(sort, one, many)| (count(sort), one, many))
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| words::plural(count, one, many))
        .collect();
    format!("{} in {}", words::list(&parts), words::plural(view.groups.len(), "setting", "settings"))
}

fn section(page: &mut Page, section: &Section) {
    page.add(format_args!("<section id=\"{}-section\">\n<h2>{}</h2>\n", section.id, section.title));
    section.charts.iter().for_each(|it| chart(page, it));
    if let Some(remark) = &section.remark {
        page.add(format_args!("<p class=\"quiet\">{}</p>\n", Text(remark)));
    }
    page.add(format_args!("</section>\n"));
}

fn chart(page: &mut Page, chart: &Chart) {
    page.add(format_args!(
        "<figure id=\"{}\">\n<h3>{}</h3>\n<p class=\"quiet\">{}</p>\n{}\n{}\n<figcaption>{}</figcaption>\n<details><summary>The same as a table</summary>\n",
        chart.id,
        Text(&chart.title),
        Text(&chart.context),
        chart.inline(Width::Wide),
        chart.inline(Width::Narrow),
        Text(&chart.says),
    ));
    table(page, &chart.title, &chart.figures);
    page.add(format_args!("</details>\n</figure>\n"));
}

fn table(page: &mut Page, caption: &str, figures: &Figures) {
    page.add(format_args!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n<thead><tr>",
        Text(caption)
    ));
    figures.head.iter().for_each(|head| page.add(format_args!("<th scope=\"col\">{}</th>", Text(head))));
    page.add(format_args!("</tr></thead>\n<tbody>\n"));
    for row in &figures.rows {
        page.add(format_args!("<tr>"));
        for (i, cell) in row.iter().enumerate() {
            match i {
                0 => page.add(format_args!("<th scope=\"row\">{}</th>", Text(cell))),
                _ => page.add(format_args!("<td>{}</td>", Text(cell))),
            }
        }
        page.add(format_args!("</tr>\n"));
    }
    page.add(format_args!("</tbody>\n</table></div>\n"));
}

fn everything(page: &mut Page, view: &View) {
    page.add(format_args!("<section id=\"everything\">\n<h2>Everything that was measured</h2>\n"));
    view.groups.iter().for_each(|it| group(page, it));
    page.add(format_args!("<details><summary>What the columns mean</summary>\n<dl>\n"));
    for column in columns::all() {
        page.add(format_args!("<dt>{}</dt><dd>{}</dd>\n", Text(column.head), Text(column.says)));
    }
    page.add(format_args!("</dl>\n</details>\n</section>\n"));
}

fn group(page: &mut Page, group: &Group) {
    let caption = words::setting(&group.setting);
    let columns = columns::of(group);
    let head = std::iter::once("strategy").chain(columns.iter().map(|column| column.head)).map(String::from).collect();
    let row = |line: &super::view::Line| {
        std::iter::once(line.name.clone()).chain(columns.iter().map(|column| (column.cell)(line))).collect()
    };
    page.add(format_args!("<h3>{}</h3>\n", Text(&caption)));
    table(page, &caption, &Figures { head, rows: group.lines.iter().map(row).collect() });
    let notes = notes::of(group);
    if !notes.is_empty() {
        page.add(format_args!(
            "<details><summary>How hapax compares here, and who was wrong</summary>\n<ul class=\"notes\">\n"
        ));
        notes.iter().for_each(|note| page.add(format_args!("<li>{}</li>\n", Text(note))));
        page.add(format_args!("</ul>\n</details>\n"));
    }
}

fn absent(page: &mut Page, report: &Report) {
    page.add(format_args!("<section id=\"absent\">\n<h2>Not measured</h2>\n"));
    match report.absent.is_empty() {
        true => page.add(format_args!("<p>Everything that was asked for was measured.</p>\n")),
        false => {
            page.add(format_args!("<dl>\n"));
            for absent in &report.absent {
                page.add(format_args!("<dt>{}</dt><dd>{}</dd>\n", Text(&absent.strategy), Text(&absent.reason)));
            }
            page.add(format_args!("</dl>\n"));
        }
    }
    page.add(format_args!("</section>\n"));
}

fn conditions(page: &mut Page, view: &View) {
    page.add(format_args!("<section id=\"repeat\">\n<h2>Machine, and how to repeat it</h2>\n<dl>\n"));
    for (name, value) in notes::conditions(view) {
        page.add(format_args!("<dt>{name}</dt><dd>{}</dd>\n", Text(&value)));
    }
    page.add(format_args!(
        "</dl>\n<pre tabindex=\"0\"><code>{}</code></pre>\n</section>\n",
        Text(&view.report.command)
    ));
}
