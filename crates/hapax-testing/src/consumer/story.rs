//! Stories: numbered lines of at most 100 columns.

use std::fmt::Write;
use std::time::Duration;

/// The largest number of columns of a story.
const COLUMNS: usize = 100;

/// A line of a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) at: Duration,
    pub(super) is_fault: bool,
    pub(super) text: String,
}

/// The most lines of a story: those of a consumer that never ends are many.
const LINES: usize = 32;

/// Writes lines with their numbers and times.
pub(super) fn story(lines: &[Line]) -> String {
    let mut story = String::new();
    let (head, tail) = (LINES - LINES / 4, LINES / 4);
    for (index, Line { at, is_fault, text }) in lines.iter().enumerate() {
        let left_out = lines.len().saturating_sub(LINES);
        if left_out > 0 && (head..lines.len() - tail).contains(&index) {
            if index == head {
                let _ = write!(story, "\n      ({left_out} more)");
            }
            continue;
        }
        let mark = if *is_fault { '!' } else { ' ' };
        let time = seconds(*at);
        let mut rest = text.as_str();
        let mut begins = format!("\n{:>3}. {time:>9} {mark} ", index + 1);
        loop {
            let room = COLUMNS - (begins.chars().count() - 1);
            let end = broken(rest, room);
            story.push_str(&begins);
            story.push_str(rest[..end].trim_end());
            rest = rest[end..].trim_start();
            if rest.is_empty() {
                break;
            }
            begins = format!("\n{}", " ".repeat(17));
        }
    }
    story
}

/// Writes a time in seconds, to the millisecond if it is not a whole number.
pub(super) fn seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        millis => format!("{}.{millis:03} s", time.as_secs()),
    }
}

/// Returns the place where a text is broken that has room for this many characters.
fn broken(text: &str, room: usize) -> usize {
    let Some((most, _)) = text.char_indices().nth(room) else { return text.len() };
    match text[..most].rfind(' ') {
        Some(space) if space > 0 => space,
        _ => most,
    }
}
