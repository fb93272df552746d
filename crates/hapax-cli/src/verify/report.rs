//! The result, for people and for programs.

use super::history::History;
use crate::printable::json_line;
use hapax_testing::{Interval, Report, Violation};
use serde_json::json;
use std::collections::BTreeSet;

type Checked = Result<Report, Box<Violation>>;

pub fn text(history: &History, checked: &Checked) -> String {
    let violation = match checked {
        Ok(report) => return format!("{}\n", right(report)),
        Err(violation) => violation,
    };
    let id = history.ids.name(violation.id);
    // The checker knows numbers, and the reader names.
    let finding = violation.to_string().replacen(&format!("id {}:", violation.id), &format!("id {id:?}:"), 1);
    let threads: BTreeSet<u16> = violation.operations.iter().map(|operation| operation.thread).collect();
    let named = |thread: &u16| format!("thread {thread} is {:?}\n", history.threads.name((*thread).into()));
    format!("{finding}\n{}", threads.iter().map(named).collect::<String>())
}

fn right(report: &Report) -> String {
    let never = report.never_exercised().map(|rule| format!("\nnever exercised: {}", rule.never()));
    let Report { operations, fresh, duplicates, unanswered, overlapping, live_max, .. } = report;
    format!(
        "right: {operations} calls, {fresh} fresh, {duplicates} duplicates, {unanswered} without an answer; {overlapping} \
         overlapped another one of the same id; at most {live_max} ids live at once{}",
        never.collect::<String>()
    )
}

pub fn json(history: &History, checked: &Checked) -> String {
    let value = match checked {
        Ok(report) => json!({
            "right": true,
            "calls": report.operations,
            "fresh": report.fresh,
            "duplicates": report.duplicates,
            "unanswered": report.unanswered,
            "overlapping": report.overlapping,
            "live_max": report.live_max,
            "never_exercised": report.never_exercised().map(|rule| rule.never()).collect::<Vec<_>>(),
        }),
        Err(violation) => json!({
            "right": false,
            "id": history.ids.name(violation.id),
            "problem": violation.problem.to_string(),
            "among": violation.among,
            "calls": violation.operations.iter().map(|operation| json!({
                "thread": history.threads.name(operation.thread.into()),
                "start": operation.interval.invoked,
                "end": (operation.interval.returned != Interval::NEVER).then_some(operation.interval.returned),
                "answer": operation.event.to_string(),
            })).collect::<Vec<_>>(),
            "diagram": violation.to_string(),
        }),
    };
    json_line(&value)
}
