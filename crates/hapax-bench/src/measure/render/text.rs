//! The report as text: for a terminal, and for a README.

use super::page::{Page, Section};
use super::table::Table;
use crate::measure::Report;
use comfy_table::{CellAlignment, ContentArrangement, presets};

/// The widest that [`table`] gets.
pub const WIDTH_COLUMNS: usize = 120;

/// The narrowest that [`table`] gets: below it, names would be cut to nothing.
const WIDTH_COLUMNS_MIN: usize = 60;

/// Returns the whole report for a terminal, 120 columns wide: the answer in a few sentences, all
/// strategies side by side, a table for each setting, the fastest first, and its notes; then the
/// strategies that were not measured, the machine, and the seed.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let text = std::fs::read_to_string("tests/integration/report/small.json")?;
/// let report = Report::from_json(&text)?;
/// print!("{}", render::table(&report));
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
pub fn table(report: &Report) -> String {
    table_within(report, WIDTH_COLUMNS)
}

/// Returns [`table`] for a terminal of this width. Columns that do not fit next to the names go
/// below, under the names again.
pub fn table_within(report: &Report, width_columns: usize) -> String {
    let width = width_columns.clamp(WIDTH_COLUMNS_MIN, WIDTH_COLUMNS);
    let said = Page::of(report);
    let mut page = String::new();
    said.warnings.iter().chain([&said.lead]).for_each(|text| paragraph(&mut page, text, "  ", width));
    for section in said.sections.iter().filter(|section| !section.is_aside) {
        page.push('\n');
        paragraph(&mut page, &format!("{}:", section.title), "", width);
        sentences(section).for_each(|text| paragraph(&mut page, &format!("- {text}"), "  ", width));
        section.tables.iter().for_each(|it| in_columns(&mut page, it, width));
        rest(section).for_each(|text| paragraph(&mut page, &format!("- {text}"), "  ", width));
        section.command.iter().for_each(|text| paragraph(&mut page, &format!("  {text}"), "    ", width));
    }
    page
}

/// Returns the report for a README: as for a terminal, ours in bold.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let report = Report::from_json(&std::fs::read_to_string("tests/integration/report/small.json")?)?;
/// assert!(render::markdown(&report).contains("| **hapax window** |"));
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
pub fn markdown(report: &Report) -> String {
    let said = Page::of(report);
    let mut page = String::new();
    said.warnings.iter().for_each(|warning| page += &format!("**{}**\n\n", escaped(warning)));
    page += &format!("{}\n", escaped(&said.lead));
    for section in said.sections.iter().filter(|section| !section.is_aside) {
        let level = if section.is_part { "###" } else { "##" };
        page += &format!("\n{level} {}\n\n", escaped(&section.title));
        sentences(section).for_each(|text| page += &format!("- {}\n", escaped(&text)));
        section.tables.iter().for_each(|table| page += &format!("\n{}\n", with_bars(table)));
        rest(section).for_each(|text| page += &format!("- {}\n", escaped(&text)));
        section.command.iter().for_each(|command| page += &format!("\n{}\n", fenced(command)));
    }
    page
}

/// Returns the texts of a section above and below its tables.
fn sentences(section: &Section) -> impl Iterator<Item = String> {
    let captions = section.tables.iter().map(|table| table.caption.clone()).filter(|caption| !caption.is_empty());
    section.sentences.iter().cloned().chain(captions)
}

fn rest(section: &Section) -> impl Iterator<Item = String> {
    let terms = section.terms.iter().map(|(name, value)| format!("{name}: {value}"));
    section.notes.iter().cloned().chain(terms)
}

/// Adds one table, or several if there are more columns than fit.
fn in_columns(page: &mut String, table: &Table, width: usize) {
    let longest = |cells: &mut dyn Iterator<Item = &String>| cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
    let names = longest(&mut table.rows.iter().map(|row| &row.name)).min(width * 2 / 5);
    let widths: Vec<usize> = (0..table.head.len())
        .map(|i| longest(&mut table.rows.iter().map(|row| &row.cells[i]).chain([&table.head[i]])) + 2)
        .collect();
    let mut from = 0;
    while from < widths.len() {
        let mut used = names;
        let fitting = widths[from..].iter().take_while(|column| {
            used += **column;
            used <= width
        });
        let to = from + fitting.count().max(1);
        let mut lines = comfy_table::Table::new();
        lines.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        lines.set_header([""].into_iter().chain(table.head[from..to].iter().map(String::as_str)));
        for row in &table.rows {
            lines.add_row([cut(&plain(&row.name), names)].into_iter().chain(row.cells[from..to].iter().cloned()));
        }
        for (i, column) in lines.column_iter_mut().enumerate() {
            column.set_padding((if i == 0 { 0 } else { 2 }, 0));
            column.set_cell_alignment(if i == 0 { CellAlignment::Left } else { CellAlignment::Right });
        }
        *page += &format!("\n{}\n\n", lines.trim_fmt());
        from = to;
    }
}

/// Cuts text to this many characters.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.into(),
    }
}

/// Removes characters that a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Adds text in lines of this width; all but the first are indented.
pub fn paragraph(page: &mut String, text: &str, indent: &str, width: usize) {
    let options = textwrap::Options::new(width).subsequent_indent(indent).break_words(false);
    *page += &format!("{}\n", textwrap::fill(&plain(&text.replace('\n', " ")), options));
}

/// Returns a table in Markdown.
fn with_bars(table: &Table) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let mut lines = line(&mut [String::new()].into_iter().chain(table.head.iter().map(|head| escaped(head))));
    lines += &format!("|---|{}\n", "---:|".repeat(table.head.len()));
    for row in &table.rows {
        let strong = if row.ours { "**" } else { "" };
        let name = format!("{strong}{}{strong}", escaped(&row.name));
        lines += &line(&mut [name].into_iter().chain(row.cells.iter().map(|cell| escaped(cell))));
    }
    lines
}

/// Escapes text, so that no character has a meaning in Markdown, and puts it on one line.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.trim().chars() {
        match c {
            c if c.is_control() => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns a block of code whose fence is longer than any in it.
fn fenced(code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    let code: String = code.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{fence}sh\n{code}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_between_words_and_indented() {
        let mut page = String::new();
        paragraph(&mut page, "  one two three four", "    ", 11);
        assert_eq!(page, "  one two\n    three\n    four\n");
    }

    #[test]
    fn a_terminal_is_told_nothing_but_text() {
        assert_eq!(plain("a\u{1b}[2Jb\rc"), "a\u{fffd}[2Jb\u{fffd}c");
    }

    #[test]
    fn text_is_text() {
        assert_eq!(escaped("Mutex<HashMap>|a_b*\n"), "Mutex&lt;HashMap&gt;\\|a\\_b\\*");
        assert_eq!(fenced("a ```` b"), "`````sh\na ```` b\n`````");
    }
}
