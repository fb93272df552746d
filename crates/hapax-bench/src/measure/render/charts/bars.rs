//! Charts with one bar a strategy, in the setting that says most.

use super::super::chart::{Bar, Bars, Body, Chart, Figures};
use super::super::numbers::{digits, large, round, trimmed};
use super::super::view::{Group, Line, Spread, View};
use super::super::words;
use crate::measure::Sort;

const SORTS: [Sort; 4] = [Sort::Window, Sort::Filter, Sort::Durable, Sort::Server];

/// Returns one chart for each sort, since servers would be dots next to memory.
pub fn throughput(view: &View) -> Vec<Chart> {
    let Some(main) = view.main() else { return Vec::new() };
    SORTS.into_iter().filter_map(|sort| throughput_of(main, sort)).collect()
}

fn throughput_of(main: &Group, sort: Sort) -> Option<Chart> {
    let lines: Vec<(&Line, Spread)> = main.of_sort(sort).filter_map(|line| Some((line, line.speed?))).collect();
    let (best, most) = lines.first()?;
    let in_memory = matches!(sort, Sort::Window | Sort::Filter);
    let reference = roofline_of(main).filter(|_| in_memory);
    let bar = |(line, speed): &(&Line, Spread)| Bar {
        name: line.label.clone(),
        ours: line.ours,
        value: speed.median,
        span: span(speed),
        beside: 0.0,
    };
    let row = |(line, speed): &(&Line, Spread)| {
        vec![line.name.clone(), large(speed.median), large(speed.lowest), large(speed.highest), speed.runs.to_string()]
    };
    let whats = words::sort(sort);
    let body = Bars {
        label: "ids a second; longer is better".into(),
        bars: lines.iter().map(bar).collect(),
        number: speed_number,
        reference: reference.map(|at| (format!("roofline {}", large(at)), at)),
    };
    Some(Chart {
        id: String::new(),
        title: format!("{}: {} does {} ids a second", capital(whats), best.label, large(most.median)),
        context: format!("{}.", words::setting(&main.setting)),
        says: format!(
            "Bars are medians; thin lines reach from the slowest to the fastest run{}.",
            match reference {
                Some(_) => "; the dashed line is the roofline, which no table can beat",
                None => "",
            }
        ),
        body: Body::Bars(body),
        figures: figures(&["ids/s", "slowest run", "fastest run", "runs"], lines.iter().map(row)),
    })
}

/// Charts the memory for each live id, in the process and outside it.
pub fn memory(view: &View) -> Vec<Chart> {
    let Some(main) = view.main().filter(|main| main.setting.budget_bytes.is_none()) else { return Vec::new() };
    let takes = |line: &Line| line.all_bytes.map_or(0.0, |bytes| bytes.median);
    let measured = |line: &&Line| line.row.sort != Sort::Roofline && takes(line) > 0.0;
    let mut lines: Vec<&Line> = main.lines.iter().filter(measured).collect();
    lines.sort_by(|a, b| takes(a).total_cmp(&takes(b)));
    let Some(least) = lines.first() else { return Vec::new() };
    let untold = |line: &Line| line.is_measured() && line.row.sort != Sort::Roofline && line.all_bytes.is_none();
    let that = if main.lines.iter().any(untold) { " that can be told" } else { "" };
    let any_beside = lines.iter().any(|line| beside(line) > 0.0);
    // Batches take no memory of their own, so a strategy has one bar; the figures below have all
    // rows.
    let mut drawn: Vec<&Line> = Vec::new();
    for line in &lines {
        if !drawn.iter().any(|other| other.row.strategy == line.row.strategy) {
            drawn.push(line);
        }
    }
    let bar = |line: &&Line| Bar {
        name: line.row.strategy.clone(),
        ours: line.ours,
        value: line.bytes.map_or(0.0, |bytes| bytes.median),
        span: line.bytes.as_ref().and_then(span).filter(|_| beside(line) == 0.0),
        beside: beside(line),
    };
    let row = |line: &&Line| {
        let or_empty = |spread: &Option<Spread>, of: fn(&Spread) -> f64| {
            spread.as_ref().map_or_else(String::new, |it| digits(of(it)))
        };
        vec![
            line.name.clone(),
            or_empty(&line.bytes, |it| it.median),
            or_empty(&line.bytes, |it| it.lowest),
            or_empty(&line.bytes, |it| it.highest),
            or_empty(&line.beside, |it| it.median),
            words::sort(line.row.sort).into(),
        ]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let says = "Memory of the process after the run, less what it had before the strategy was built, by the ids it holds; too little to be told is left out";
    vec![Chart {
        id: String::new(),
        title: format!("{} takes the least memory{that}: {} bytes a live id", least.row.strategy, digits(takes(least))),
        context: format!("{}.", words::setting(&main.setting)),
        says: match any_beside {
            true => format!("{says}; dashed boxes are what a server or a directory holds beside it."),
            false => format!("{says}."),
        },
        body: Body::Bars(Bars {
            label: "bytes a live id; shorter is better".into(),
            bars: drawn.iter().map(bar).collect(),
            number: trimmed,
            reference: None,
        }),
        figures: figures(&["B/id", "least", "most", "beside B/id", "sort"], rows.into_iter()),
    }]
}

/// Charts how near strategies in memory come to the roofline.
pub fn roofline(view: &View) -> Vec<Chart> {
    let Some(main) = view.main() else { return Vec::new() };
    let Some(roofline) = roofline_of(main) else { return Vec::new() };
    let in_memory = |line: &&Line| matches!(line.row.sort, Sort::Window | Sort::Filter);
    let lines: Vec<(&Line, Spread)> =
        main.lines.iter().filter(in_memory).filter_map(|line| Some((line, line.speed?))).collect();
    let Some((best, most)) = lines.first() else { return Vec::new() };
    let share = |speed: f64| 100.0 * speed / roofline;
    let bar = |(line, speed): &(&Line, Spread)| Bar {
        name: line.label.clone(),
        ours: line.ours,
        value: share(speed.median),
        span: None,
        beside: 0.0,
    };
    let row = |(line, speed): &(&Line, Spread)| {
        vec![line.name.clone(), large(speed.median), format!("{} %", digits(share(speed.median)))]
    };
    vec![Chart {
        id: String::new(),
        title: format!("{} does {} % of what memory allows", best.label, digits(share(most.median))),
        context: format!("{}.", words::setting(&main.setting)),
        says: format!(
            "The roofline is to fetch a random line of memory and add to it: {} ids a second here. A strategy whose table is \
             smaller than the roofline's, or that stays in a cache, can come out above 100 %.",
            large(roofline)
        ),
        body: Body::Bars(Bars {
            label: "% of the roofline; longer is better".into(),
            bars: lines.iter().map(bar).collect(),
            number: trimmed,
            reference: Some(("100 %".into(), 100.0)),
        }),
        figures: figures(&["ids/s", "of the roofline"], lines.iter().map(row)),
    }]
}

/// Returns the fastest of the rooflines.
fn roofline_of(main: &Group) -> Option<f64> {
    main.of_sort(Sort::Roofline).find_map(|line| line.speed).map(|speed| speed.median)
}

fn beside(line: &Line) -> f64 {
    line.beside.map_or(0.0, |beside| beside.median)
}

fn span(spread: &Spread) -> Option<(f64, f64)> {
    (spread.runs > 1).then_some((spread.lowest, spread.highest))
}

/// Formats a speed: 0, 5 M and 41.2 M, but not 41.0 M.
fn speed_number(speed: f64) -> String {
    round(speed)
}

fn figures(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Figures {
    let head = std::iter::once("strategy").chain(head.iter().copied()).map(String::from).collect();
    Figures { head, rows: rows.collect() }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
