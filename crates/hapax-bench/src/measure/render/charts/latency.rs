//! Charts of the latencies of the slowest ids.

use super::super::chart::{Axis, Body, Chart, Curves, Figures, Point, Series};
use super::super::numbers::{round, time, trimmed};
use super::super::view::{Group, Line, View};
use super::super::words;
use super::Styles;
use crate::measure::Sort;

/// The shares with a mark, if they were measured; those without a name have no place on the axis.
const DRAWN: [(f64, &str); 8] =
    [(0.5, "50"), (0.75, ""), (0.9, "90"), (0.95, ""), (0.99, "99"), (0.995, ""), (0.999, "99.9"), (0.9999, "99.99")];

/// The sorts of strategy that share a chart: in memory, or elsewhere.
const FAMILIES: [(&str, &[Sort]); 2] =
    [("In memory", &[Sort::Window, Sort::Filter]), ("Durable, and on servers", &[Sort::Durable, Sort::Server])];

pub fn charts(view: &View, styles: &Styles) -> Vec<Chart> {
    let paced = view.groups.iter().filter(|group| group.setting.rate.is_some());
    paced.flat_map(|group| FAMILIES.iter().filter_map(|family| chart(group, *family, styles))).collect()
}

fn chart(group: &Group, (family, sorts): (&str, &[Sort]), styles: &Styles) -> Option<Chart> {
    let in_family = |line: &&Line| sorts.contains(&line.row.sort);
    let lines: Vec<&Line> = group.lines.iter().filter(in_family).filter(|line| !points(line).is_empty()).collect();
    let tail = |line: &&Line| line.quantiles[2].filter(|_| !line.fell_behind()).map_or(f64::INFINITY, |it| it.median);
    let best = lines.iter().min_by(|a, b| tail(a).total_cmp(&tail(b)))?;
    let rate = round(group.setting.rate.unwrap_or(0.0));
    let title = match tail(best) {
        nanos if nanos.is_finite() => {
            format!("{family}, at {rate} ids/s: {} answers 99.9 % of ids within {}", best.label, time(nanos))
        }
        _ => format!("{family}, at {rate} ids/s"),
    };
    let series = |line: &&Line| Series { name: label(line), style: styles.of(line), points: points(line) };
    let ticks = DRAWN.iter().filter(|(_, name)| !name.is_empty()).map(|(of, name)| (nines(*of), format!("{name} %")));
    Some(Chart {
        id: String::new(),
        title,
        context: format!("{}.", words::setting(&group.setting)),
        says: "Each id's time from when it was due, so that a stall counts for all that wait for its end. Medians of the runs; time is \
               logarithmic, and so is the share that took longer."
            .into(),
        body: Body::Curves(Curves {
            x: Axis { label: "of all ids took at most so long".into(), logarithmic: false, ticks: ticks.collect(), number: trimmed },
            y: Axis { label: "time".into(), logarithmic: true, ticks: Vec::new(), number: tick_time },
            series: lines.iter().map(series).collect(),
        }),
        figures: figures(&lines),
    })
}

fn label(line: &Line) -> String {
    match line.fell_behind() {
        true => format!("{} (fell behind)", line.label),
        false => line.label.clone(),
    }
}

/// Returns how many nines a share has: 0.99 has 2.
fn nines(of: f64) -> f64 {
    -(1.0 - of).log10()
}

fn points(line: &Line) -> Vec<Point> {
    let point = |of: f64| {
        let nanos = line.row.latency_nanos(of)?.median;
        // A logarithm needs a positive value; no clock resolves less.
        Some(Point { x: nines(of), y: nanos.max(1.0), span: None, bound: false })
    };
    DRAWN.iter().filter_map(|(of, _)| point(*of)).collect()
}

fn tick_time(nanos: f64) -> String {
    let text = time(nanos);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

fn figures(lines: &[&Line]) -> Figures {
    let measured = |of: &&(f64, &str)| lines.iter().any(|line| line.row.latency_nanos(of.0).is_some());
    let drawn: Vec<f64> = DRAWN.iter().filter(measured).map(|(of, _)| *of).collect();
    let mut head = vec!["strategy".to_string()];
    head.extend(drawn.iter().map(|of| format!("{} %", trimmed_share(*of))));
    head.extend(["longest".to_string(), "ids/s answered".to_string()]);
    let row = |line: &&Line| {
        let at = |of: f64| line.row.latency_nanos(of).map_or_else(String::new, |nanos| time(nanos.median));
        let mut row = vec![label(line)];
        row.extend(drawn.iter().map(|of| at(*of)));
        row.push(longest(line));
        row.push(line.row.reached().map_or_else(String::new, |reached| super::super::numbers::large(reached.median)));
        row
    };
    Figures { head, rows: lines.iter().map(row).collect() }
}

/// Formats a share like 99.99, of which three digits would make 100.
fn trimmed_share(of: f64) -> String {
    format!("{:.3}", 100.0 * of).trim_end_matches('0').trim_end_matches('.').into()
}

fn longest(line: &Line) -> String {
    let all = line.row.runs.iter().flat_map(|run| &run.latency).flat_map(|latency| &latency.quantiles);
    all.map(|quantile| quantile.nanos).max().map_or_else(String::new, |nanos| time(nanos as f64))
}
