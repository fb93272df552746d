//! The notes below the figures of a group.

use super::numbers::{count, digits, large, share};
use super::view::{Group, Line, View, Wrong};
use super::words;
use crate::measure::compare::RUNS_MIN;
use crate::measure::{Setting, Sort};
use std::collections::BTreeSet;

/// States how ours compare, which strategies gave which wrong answers, which fell behind, and which
/// failed.
pub fn of(group: &Group) -> Vec<String> {
    let mut notes: Vec<String> = group.lines.iter().filter(|line| line.ours).filter_map(versus).collect();
    notes.extend(short_batches(group));
    notes.extend(group.lines.iter().filter_map(behind));
    notes.extend(group.lines.iter().flat_map(wrong_answers));
    notes.extend(none_wrong(group));
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
    Some(format!(
        "{} is {} × as fast as {}, the fastest {} that isn't hapax: {verdict}.",
        line.name,
        digits(versus.times),
        versus.rival,
        words::noun(line.row.sort),
    ))
}

/// Notes where batches are noticeably smaller than they may be.
fn short_batches(group: &Group) -> Option<String> {
    let is_short = |setting: &&Setting| {
        setting.batch > 1 && setting.batch_on_average().is_some_and(|ids| ids < 0.9 * setting.batch as f64)
    };
    let setting = group.lines.iter().map(|line| &line.row.setting).find(is_short)?;
    Some(format!(
        "A batch ends with its hundredth of the window: those of {} have {} ids on average.",
        count(setting.batch as u64),
        digits(setting.batch_on_average()?),
    ))
}

fn behind(line: &Line) -> Option<String> {
    let reached = line.row.reached().filter(|_| line.fell_behind())?;
    Some(format!(
        "{} fell behind: it answered {} ids/s of {} due, so its latencies say for how long that went on.",
        line.name,
        large(reached.median),
        large(line.row.setting.rate?),
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

/// Names the strategies that are right without exception, in one sentence.
fn none_wrong(group: &Group) -> Option<String> {
    let right = |line: &&Line| {
        line.row.sort != Sort::Roofline
            && line.missed.of.saturating_add(line.invented.of) > 0
            && line.missed.is_trivial()
            && line.invented.is_trivial()
    };
    let right: Vec<&Line> = group.lines.iter().filter(right).collect();
    let fewest = right.iter().map(|line| line.missed.of.saturating_add(line.invented.of)).min()?;
    let names: Vec<String> = right.iter().map(|line| line.name.clone()).collect();
    let judged = group.lines.iter().filter(|line| line.row.sort != Sort::Roofline).count();
    let who = if right.len() == judged { "all".into() } else { names.join(", ") };
    Some(format!("No wrong answer in {} or more that could be: {who}.", count(fewest)))
}

/// Returns the warnings about the report as a whole.
pub fn warnings(view: &View) -> Vec<String> {
    let mut warnings = Vec::new();
    if view.report.interrupted {
        warnings.push("The measurement was interrupted: rows or rounds are missing.".into());
    }
    if view.report.rows.is_empty() {
        warnings.push("Nothing was measured.".into());
    }
    if view.report.rows.iter().any(|row| row.setting.is_sparse() && row.setting.rate.is_none()) {
        let what = "what is measured is mostly how time moves on, not the strategies";
        warnings.push(format!("Where fewer than 1,000 ids a thread are live, {what}."));
    }
    let broken = |line: &&Line| line.breaks(&line.missed) || line.breaks(&line.invented);
    let culprits: BTreeSet<String> = view.lines().filter(broken).map(|line| line.row.strategy.clone()).collect();
    let broken: Vec<String> = culprits.into_iter().collect();
    if !broken.is_empty() {
        warnings.push(format!("More wrong answers than promised: {}.", words::list(&broken)));
    }
    let failures: usize = view.report.rows.iter().map(|row| row.failures.len()).sum();
    if failures > 0 {
        warnings.push(format!("{} failed; the tables say why.", words::plural(failures, "run", "runs")));
    }
    warnings
}

/// Returns where and how it was measured: names and values.
pub fn conditions(view: &View) -> Vec<(&'static str, String)> {
    let machine = &view.report.machine;
    let libraries: Vec<String> = machine.libraries.iter().map(|it| format!("{} {}", it.name, it.version)).collect();
    let mut conditions = vec![
        ("Measured", super::numbers::date(view.report.began_unix_seconds)),
        (
            "Processor",
            format!("{}, {}", machine.processor, words::plural(machine.processors, "processor", "processors")),
        ),
        ("Memory", super::numbers::bytes(machine.memory_bytes as f64)),
        ("System", machine.system.clone()),
        ("Compiler", machine.compiler.clone()),
        ("Versions", libraries.join(", ")),
        ("Seed", view.report.seed.to_string()),
    ];
    conditions.retain(|(_, value)| !value.is_empty());
    conditions
}
