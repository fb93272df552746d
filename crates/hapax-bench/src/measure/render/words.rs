//! Settings and strategies in words.

use super::numbers::{count, round, share, time};
use super::view::Wrong;
use crate::measure::{IdKind, Row, Setting, Shape, Sort};

/// Returns a row's name where rows of several batch sizes meet.
pub fn name(row: &Row) -> String {
    match row.setting.batch {
        0 | 1 => row.strategy.clone(),
        batch => format!("{}, batches of {}", row.strategy, count(batch as u64)),
    }
}

/// Describes what is the same for all rows of a group: everything but the batch size.
pub fn setting(setting: &Setting) -> String {
    format!("{}, {}, {}", live(setting), threads(setting.threads), rest(setting))
}

/// Describes a setting where the number of threads varies.
pub fn setting_without_threads(setting: &Setting) -> String {
    format!("{}, {}", live(setting), rest(setting))
}

/// Describes a setting where the number of live ids varies.
pub fn setting_without_live(setting: &Setting) -> String {
    format!("ids: {}, {}, {}", ids(setting.ids), threads(setting.threads), rest(setting))
}

fn rest(setting: &Setting) -> String {
    let mut words = vec![stream(setting)];
    if setting.think_nanos > 0 {
        words.push(format!("{} between two calls", time(setting.think_nanos as f64)));
    }
    if let Some(rate) = setting.rate {
        words.push(format!("{} ids/s due", round(rate)));
    }
    if let Some(budget) = setting.budget_bytes {
        words.push(format!("a budget of {}", super::numbers::bytes(budget as f64)));
    }
    words.join(", ")
}

pub fn live(setting: &Setting) -> String {
    format!("{} live ids ({})", round(setting.live as f64), ids(setting.ids))
}

pub fn threads(threads: usize) -> String {
    match threads {
        1 => "1 thread".into(),
        _ => format!("{threads} threads"),
    }
}

pub fn ids(kind: IdKind) -> &'static str {
    match kind {
        IdKind::U64 => "u64",
        IdKind::Uuid => "UUIDs, 16 bytes",
        IdKind::UuidText => "UUIDs as text",
        IdKind::Key200 => "keys of 200 bytes",
        IdKind::Bytes => "bytes",
    }
}

fn stream(setting: &Setting) -> String {
    let workload = &setting.workload;
    let shape = shape(&workload.shape);
    match workload.shape {
        Shape::Zipf { .. } | Shape::Trace { .. } => shape,
        _ => format!(
            "{shape}, {} redelivered within {} of a window",
            share(workload.duplicates),
            share(workload.distance_windows)
        ),
    }
}

pub fn shape(shape: &Shape) -> String {
    match shape {
        Shape::Uniform => "uniform".into(),
        Shape::Zipf { exponent } => format!("Zipf, exponent {exponent}"),
        Shape::Rebalance => "bursts after a rebalance".into(),
        Shape::RetryStorm => "retry storms".into(),
        Shape::Prefixes => "long common prefixes".into(),
        Shape::Trace { path } => format!("ids of {}", path.display()),
    }
}

pub fn sort(sort: Sort) -> &'static str {
    match sort {
        Sort::Roofline => "roofline",
        Sort::Window => "window, in memory",
        Sort::Filter => "filter, in memory",
        Sort::Durable => "durable, in process",
        Sort::Server => "on a server",
    }
}

pub fn noun(sort: Sort) -> &'static str {
    match sort {
        Sort::Roofline => "roofline",
        Sort::Window => "window",
        Sort::Filter => "filter",
        Sort::Durable => "durable strategy",
        Sort::Server => "strategy on a server",
    }
}

/// Describes wrong answers: "86 of 6.00 M: 14.3 in a million (11.5 to 17.7 in a million)".
pub fn wrong(wrong: &Wrong) -> String {
    let Wrong { wrong: count, of, .. } = *wrong;
    if of == 0 {
        return "none asked".into();
    }
    let interval = wrong.interval();
    let asked = round(of as f64);
    match count {
        0 => format!("0 of {asked}: < {}", share(interval.upper)),
        _ => format!(
            "{} of {asked}: {} ({})",
            super::numbers::count(count),
            share(wrong.share()),
            span(&share(interval.lower), &share(interval.upper))
        ),
    }
}

/// Describes a span: "2 to 3 %", with the unit once, if both have the same.
fn span(from: &str, to: &str) -> String {
    match (from.split_once(' '), to.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {to}"),
        _ => format!("{from} to {to}"),
    }
}

/// Lists names: "a, b and c", at most as many as fit a sentence.
pub fn list(names: &[String]) -> String {
    const MOST: usize = 4;
    match names {
        [] => "none".into(),
        [only] => only.clone(),
        [most @ .., last] if names.len() <= MOST => format!("{} and {last}", most.join(", ")),
        _ => format!("{} and {} more", names[..MOST - 1].join(", "), names.len() - MOST + 1),
    }
}

pub fn plural(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", super::numbers::count(count as u64)),
    }
}
