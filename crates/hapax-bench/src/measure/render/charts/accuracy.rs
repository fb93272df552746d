//! Charts of wrong answers and memory.

use super::super::chart::{Axis, Body, Chart, Curves, Figures, Point, Series};
use super::super::numbers::{bytes, digits, round, share, trimmed};
use super::super::view::{Line, View, Wrong};
use super::super::words::{self, list};
use super::Styles;
use crate::measure::{Setting, Sort};

struct Kind {
    what: &'static str,
    of: fn(&Line) -> Wrong,
}

const KINDS: [Kind; 2] = [
    Kind { what: "missed duplicates", of: |line| line.missed },
    Kind { what: "invented duplicates", of: |line| line.invented },
];

/// Returns one chart for each kind of wrong answer, in the setting with most points.
pub fn charts(view: &View, styles: &Styles) -> Vec<Chart> {
    let mut contexts: Vec<(Setting, Vec<&Line>)> = Vec::new();
    for line in view.lines().filter(|line| line.bytes.is_some() && line.row.sort != Sort::Roofline) {
        let setting = Setting { batch: 1, budget_bytes: None, ..line.row.setting.clone() };
        match contexts.iter_mut().find(|(other, _)| *other == setting) {
            Some((_, lines)) => lines.push(line),
            None => contexts.push((setting, vec![line])),
        }
    }
    let fallible = |kind: &Kind, lines: &[&Line]| lines.iter().filter(|line| may_err(kind, line)).count();
    let chart = |kind: &Kind| {
        let (setting, lines) = contexts.iter().rev().max_by_key(|(_, lines)| fallible(kind, lines))?;
        chart(kind, setting, lines, styles)
    };
    KINDS.iter().filter_map(chart).collect()
}

/// Returns true if it may give answers that are wrong in this way, or did.
fn may_err(kind: &Kind, line: &Line) -> bool {
    let wrong = (kind.of)(line);
    wrong.of > 0 && !wrong.is_trivial()
}

fn chart(kind: &Kind, setting: &Setting, lines: &[&Line], styles: &Styles) -> Option<Chart> {
    let (drawn, exact): (Vec<&Line>, Vec<&Line>) = lines.iter().copied().partition(|line| may_err(kind, line));
    let mut series: Vec<Series> = Vec::new();
    let single = |line: &Line| line.row.setting.batch <= 1;
    for line in &drawn {
        // Batches are as accurate as single ids, and would be drawn on top of them.
        if !single(line) && drawn.iter().any(|other| single(other) && other.row.strategy == line.row.strategy) {
            continue;
        }
        let Some(point) = point(kind, line) else { continue };
        let style = styles.of(line);
        match series.iter_mut().find(|series| series.name == line.label && series.style == style) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name: line.label.clone(), style, points: vec![point] }),
        }
    }
    series.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    let leanest = series.iter().flat_map(|series| series.points.iter().map(move |point| (series, point)));
    let (best, at) = leanest.min_by(|a, b| a.1.y.total_cmp(&b.1.y))?;
    let fewest = if at.bound { format!("fewer than {}", share(at.y)) } else { share(at.y) };
    let mut without: Vec<String> =
        exact.iter().filter(|line| (kind.of)(line).of > 0).map(|line| line.row.strategy.clone()).collect();
    without.sort();
    without.dedup();
    let mut says = String::from(
        "Both axes are logarithmic. Lines reach over the exact 95 % interval; a mark with an arrow is an upper bound: none was seen.",
    );
    if !without.is_empty() {
        says.push_str(&format!(" Not drawn, as they may give none and gave none: {}.", list(&without)));
    }
    Some(Chart {
        id: String::new(),
        title: format!(
            "{}{}: fewest by {}, {fewest} at {} bytes a live id",
            kind.what[..1].to_uppercase(),
            &kind.what[1..],
            best.name,
            digits(at.x)
        ),
        context: format!("{}.", words::setting(setting)),
        says,
        body: Body::Curves(Curves {
            x: Axis { label: "bytes a live id".into(), logarithmic: true, ticks: Vec::new(), number: trimmed },
            y: Axis { label: format!("share of {}", kind.what), logarithmic: true, ticks: Vec::new(), number: tick },
            series,
        }),
        figures: figures(kind, lines),
    })
}

fn point(kind: &Kind, line: &Line) -> Option<Point> {
    let wrong = (kind.of)(line);
    let (x, interval) = (line.bytes?.median, wrong.interval());
    Some(match wrong.wrong {
        0 => Point { x, y: interval.upper, span: None, bound: true },
        _ => Point { x, y: wrong.share(), span: Some((interval.lower, interval.upper)), bound: false },
    })
}

fn tick(value: f64) -> String {
    match value >= 0.9e-3 {
        true => format!("{} %", trimmed(100.0 * value)),
        false => format!("{value:.0e}"),
    }
}

fn figures(kind: &Kind, lines: &[&Line]) -> Figures {
    let head =
        ["strategy", "budget", "B/id", kind.what, "of", "share", "at least", "at most"].map(String::from).to_vec();
    let row = |line: &&Line| {
        let wrong = (kind.of)(line);
        let interval = wrong.interval();
        vec![
            line.name.clone(),
            line.row.setting.budget_bytes.map_or_else(String::new, |budget| bytes(budget as f64)),
            line.bytes.map_or_else(String::new, |it| digits(it.median)),
            super::super::numbers::count(wrong.wrong),
            round(wrong.of as f64),
            share(wrong.share()),
            share(interval.lower),
            share(interval.upper),
        ]
    };
    Figures { head, rows: lines.iter().filter(|line| (kind.of)(line).of > 0).map(row).collect() }
}
