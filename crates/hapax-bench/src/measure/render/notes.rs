//! The notes below the figures of a group, and about the report as a whole.

use super::view::{Group, Line, View};
use super::words::{self, bytes, number, plural, share};
use crate::measure::figures::{RUNS_MIN, Wrong};
use crate::measure::{Setting, Sort};
use std::collections::BTreeSet;

/// States how ours compare, which strategies gave which wrong answers, which fell behind, and which
/// failed.
pub fn of(group: &Group) -> Vec<String> {
    let mut notes: Vec<String> = group.lines.iter().filter(|line| line.ours).filter_map(versus).collect();
    notes.extend(short_batches(group));
    notes.extend(group.lines.iter().filter_map(behind));
    notes.extend(group.lines.iter().flat_map(wrong_answers));
    notes.extend(group.lines.iter().flat_map(|line| {
        let failed = |failure: &String| format!("{} failed: {}", line.name, failure.trim());
        line.row.failures.iter().map(failed)
    }));
    notes
}

fn versus(line: &Line) -> Option<String> {
    let versus = line.versus.as_ref()?;
    let verdict = match versus.times {
        _ if versus.runs < RUNS_MIN => "with so few runs it cannot be told whether that is chance",
        _ if !versus.clear => "no clear difference: some of its runs were slower, some faster",
        times if times >= 1.0 => "faster in every run",
        _ => "slower in every run",
    };
    let (times, noun) = (number(versus.times), words::noun(line.row.sort));
    let rival = &versus.rival;
    Some(format!("{} is {times} × as fast as {rival}, the fastest {noun} that isn't hapax: {verdict}.", line.name))
}

/// Notes where batches are noticeably smaller than they may be.
fn short_batches(group: &Group) -> Option<String> {
    let is_short = |setting: &&Setting| {
        setting.batch > 1 && setting.batch_on_average().is_some_and(|ids| ids < 0.9 * setting.batch as f64)
    };
    let setting = group.lines.iter().map(|line| &line.row.setting).find(is_short)?;
    Some(format!(
        "A batch ends with its hundredth of the window: those of {} have {} ids on average.",
        number(setting.batch as f64),
        number(setting.batch_on_average()?),
    ))
}

fn behind(line: &Line) -> Option<String> {
    let reached = number(line.row.reached().filter(|_| line.fell_behind())?.median);
    let (name, rate) = (&line.name, number(line.row.setting.rate?));
    Some(format!(
        "{name} fell behind: it answered {reached} ids/s of {rate} due, so its latencies say for how long that went on."
    ))
}

fn wrong_answers(line: &Line) -> Vec<String> {
    let kinds = [(&line.missed, "missed duplicates"), (&line.invented, "invented duplicates")];
    let worth_saying = |wrong: &Wrong| line.row.sort != Sort::Roofline && wrong.of > 0 && !wrong.is_trivial();
    let say = |(wrong, what): &(&Wrong, &str)| {
        let promise = match (line.breaks(wrong), wrong.allowed) {
            _ if line.row.setting.budget_bytes.is_some() => String::new(),
            (true, 0.0) => "; none may be".into(),
            (true, allowed) => format!("; more than the {} that may be", share(allowed)),
            (false, allowed) => format!("; {} may be", share(allowed)),
        };
        format!("{}, {what}: {}{promise}.", line.name, words::wrong(wrong))
    };
    kinds.iter().filter(|(wrong, _)| worth_saying(wrong)).map(say).collect()
}

/// Returns the warnings about the report as a whole.
pub fn warnings(view: &View) -> Vec<String> {
    let mut warnings = Vec::new();
    let rows = &view.report.rows;
    if view.report.interrupted {
        warnings.push("The measurement was interrupted: rows or rounds are missing.".into());
    }
    if rows.is_empty() {
        warnings.push("Nothing was measured.".into());
    }
    if rows.iter().any(|row| row.setting.is_sparse() && row.setting.rate.is_none()) {
        let what = "what is measured is mostly how time moves on, not the strategies";
        warnings.push(format!("Where fewer than 1,000 ids a thread are live, {what}."));
    }
    let broken = |line: &&Line| line.breaks(&line.missed) || line.breaks(&line.invented);
    let culprits: BTreeSet<&String> = view.lines().filter(broken).map(|line| &line.row.strategy).collect();
    if !culprits.is_empty() {
        let culprits: Vec<String> = culprits.into_iter().cloned().collect();
        warnings.push(format!("More wrong answers than promised: {}.", words::list(&culprits)));
    }
    let failures: usize = rows.iter().map(|row| row.failures.len()).sum();
    if failures > 0 {
        warnings.push(format!("{} failed; the tables say why.", plural(failures, "run", "runs")));
    }
    warnings
}

/// Returns where and how it was measured: names and values.
pub fn conditions(view: &View) -> Vec<(String, String)> {
    let machine = &view.report.machine;
    let libraries: Vec<String> = machine.libraries.iter().map(|it| format!("{} {}", it.name, it.version)).collect();
    let processors = plural(machine.processors, "processor", "processors");
    let conditions = [
        ("Measured", words::date(view.report.began_unix_seconds)),
        ("Processor", format!("{}, {processors}", machine.processor)),
        ("Memory", bytes(machine.memory_bytes as f64)),
        ("System", machine.system.clone()),
        ("Compiler", machine.compiler.clone()),
        ("Versions", libraries.join(", ")),
        ("Seed", view.report.seed.to_string()),
    ];
    let known = conditions.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.to_string(), value)).collect()
}
