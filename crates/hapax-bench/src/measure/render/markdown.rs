//! Tables for a README.

use super::view::{Group, View};
use super::{answer, columns, notes, words};
use crate::measure::Report;
use std::fmt::Write;

/// Returns the report for a README: for each setting a table, the fastest first, ours in bold; then
/// how it was measured.
///
/// ```
/// # use hapax_bench::measure::{Report, render};
/// # let report = Report::from_json(&std::fs::read_to_string("tests/report/small.json")?)?;
/// assert!(render::markdown(&report).contains("| **hapax window** |"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn markdown(report: &Report) -> String {
    let view = View::of(report);
    let mut page = String::new();
    let mut line = |text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    notes::warnings(&view).iter().for_each(|warning| line(&format!("**{}**\n", escaped(warning))));
    answer::sentences(&view).iter().for_each(|sentence| line(&format!("- {}", escaped(sentence))));
    for group in &view.groups {
        line(&format!("\n{}:\n", escaped(&words::setting(&group.setting))));
        line(&of_group(group));
        notes::of(group).iter().for_each(|note| line(&format!("- {}", escaped(note))));
    }
    if !report.absent.is_empty() {
        line("\nNot measured:\n");
    }
    for absent in &report.absent {
        line(&format!("- {}: {}", escaped(&absent.strategy), escaped(&absent.reason)));
    }
    line("");
    for (name, value) in notes::conditions(&view) {
        line(&format!("- {name}: {}", escaped(&value)));
    }
    line(&format!("\n{}", fenced(&report.command)));
    page
}

fn of_group(group: &Group) -> String {
    let columns = columns::of(group);
    let mut table = String::from("| |");
    columns.iter().for_each(|column| table.push_str(&format!(" {} |", column.head)));
    table.push_str("\n|---|");
    columns.iter().for_each(|_| table.push_str("---:|"));
    for line in &group.lines {
        let strong = if line.ours { "**" } else { "" };
        // Writing to a string does not fail.
        let _ = write!(table, "\n| {strong}{}{strong} |", escaped(&line.name));
        columns.iter().for_each(|column| table.push_str(&format!(" {} |", escaped(&(column.cell)(line)))));
    }
    table.push('\n');
    table
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
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns a block of code whose fence is longer than any in it.
fn fenced(code: &str) -> String {
    let (mut longest, mut now) = (0, 0);
    for c in code.chars() {
        now = if c == '`' { now + 1 } else { 0 };
        longest = longest.max(now);
    }
    let fence = "`".repeat(3.max(longest + 1));
    let code: String = code.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{fence}sh\n{code}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text() {
        assert_eq!(escaped("Mutex<HashMap>|a_b*\n"), "Mutex&lt;HashMap&gt;\\|a\\_b\\*");
        assert_eq!(fenced("a ```` b"), "`````sh\na ```` b\n`````");
    }
}
