//! Tables for a terminal.

use super::columns::{self, Column};
use super::view::{Group, View};
use super::{answer, notes, words};
use crate::measure::Report;

/// The widest that [`table`] gets.
pub const WIDTH_COLUMNS: usize = 120;

/// The narrowest that [`table`] gets: below it, names would be cut to nothing.
const WIDTH_COLUMNS_MIN: usize = 60;

/// Returns the whole report for a terminal, 120 columns wide: for each setting a table, the fastest
/// first, and its notes; then the machine, the seed, the strategies that were not measured, and the
/// answer in a few sentences.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let text = std::fs::read_to_string("tests/report/small.json")?;
/// let report = Report::from_json(&text)?;
/// print!("{}", render::table(&report));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn table(report: &Report) -> String {
    table_within(report, WIDTH_COLUMNS)
}

/// Returns [`table`] for a terminal of this width. Columns that do not fit next to the names go
/// below, under the names again.
pub fn table_within(report: &Report, width_columns: usize) -> String {
    let width = width_columns.clamp(WIDTH_COLUMNS_MIN, WIDTH_COLUMNS);
    let view = View::of(report);
    let mut page = String::new();
    for group in &view.groups {
        paragraph(&mut page, &format!("{}.", words::setting(&group.setting)), "", width);
        page.push('\n');
        of_group(&mut page, group, width);
        notes::of(group).iter().for_each(|note| paragraph(&mut page, note, "  ", width));
        page.push('\n');
    }
    for (name, value) in notes::conditions(&view) {
        paragraph(&mut page, &format!("{name}: {value}"), "  ", width);
    }
    paragraph(&mut page, &format!("Command: {}", report.command), "  ", width);
    if !report.absent.is_empty() {
        page.push_str("\nNot measured:\n");
    }
    for absent in &report.absent {
        paragraph(&mut page, &format!("  {}: {}", absent.strategy, absent.reason), "    ", width);
    }
    page.push('\n');
    let sentences = notes::warnings(&view).into_iter().chain(answer::sentences(&view));
    sentences.for_each(|sentence| paragraph(&mut page, &sentence, "  ", width));
    page
}

/// Adds one table, or several if there are more columns than fit.
fn of_group(page: &mut String, group: &Group, width: usize) {
    let names: Vec<String> = group.lines.iter().map(|line| plain(&line.name)).collect();
    let name_width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(width * 2 / 5);
    let cells = |column: &Column| -> Vec<String> {
        let below = group.lines.iter().map(|line| (column.cell)(line));
        std::iter::once(column.head.to_string()).chain(below).collect()
    };
    let columns: Vec<Vec<String>> = columns::of(group).iter().map(cells).collect();
    let mut rest: &[Vec<String>] = &columns;
    while !rest.is_empty() {
        let fitting = fitting(rest, width - name_width).max(1);
        let (now, later) = rest.split_at(fitting);
        rest = later;
        for i in 0..=names.len() {
            let name = if i == 0 { "" } else { &names[i - 1] };
            let mut line = format!("{:<name_width$}", cut(name, name_width));
            for column in now {
                line.push_str(&format!("{:>1$}", column[i], width_of(column) + 2));
            }
            page.push_str(line.trim_end());
            page.push('\n');
        }
        page.push('\n');
    }
}

fn width_of(column: &[String]) -> usize {
    column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0)
}

/// Returns how many of the columns fit side by side.
fn fitting(columns: &[Vec<String>], width: usize) -> usize {
    let mut used = 0;
    columns
        .iter()
        .take_while(|column| {
            used += width_of(column) + 2;
            used <= width
        })
        .count()
}

/// Cuts text to this many characters.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.into(),
    }
}

/// Removes characters that a terminal would obey.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Adds text in lines of this width; all but the first are indented.
pub fn paragraph(page: &mut String, text: &str, indent: &str, width: usize) {
    let text = plain(&text.replace('\n', " "));
    let leading: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut line = leading;
    let mut is_empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            page.push_str(&line);
            page.push('\n');
            line = indent.into();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    page.push_str(&line);
    page.push('\n');
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
}
