//! The columns of the tables with all figures.

use super::view::{Group, Line, QUANTILES};
use super::words::{number, share, time};
use crate::measure::Sort;
use crate::measure::figures::{Spread, Wrong};

/// A column: its head, what that means, and its cell.
pub type Column = (&'static str, &'static str, fn(&Line) -> String);

pub const ALL: [Column; 16] = [
    ("ids/s", "checks a second, median of the runs", speed),
    ("slowest–fastest", "the slowest and the fastest run", |line| line.speed.map_or_else(String::new, span)),
    ("ns/id", "wall time by checks", |line| median(line.row.nanos_per_id(), number)),
    ("× rival", "times as fast as the fastest of the same sort that is not hapax", versus),
    (QUANTILES[0].1, "half of the ids took at most so long", |line| median(line.quantiles[0], time)),
    (QUANTILES[1].1, "99 % took at most so long", |line| median(line.quantiles[1], time)),
    (QUANTILES[2].1, "99.9 % took at most so long", |line| median(line.quantiles[2], time)),
    (QUANTILES[3].1, "99.99 % took at most so long", |line| median(line.quantiles[3], time)),
    ("B/id", "memory of the process by live ids; empty if it is too little to be told, or holds few of them", |line| {
        median(line.row.bytes_per_id(), number)
    }),
    ("beside B/id", "memory or disk of a server or a directory by live ids", |line| {
        median(line.row.beside_bytes_per_id(), number)
    }),
    ("CPU ns/id", "processor time of the process by checks", |line| median(line.row.cpu_nanos_per_id(), number)),
    ("server ns/id", "processor time of the server by checks", |line| {
        median(line.row.server_cpu_nanos_per_id(), number)
    }),
    ("start", "time to build it", |line| median(line.row.start_nanos(), time)),
    ("pause", "the longest that a thread was held up by one call", pause),
    ("missed", "share of duplicates that it called fresh", |line| wrong(line.row.sort, &line.missed)),
    ("invented", "share of new ids that it called duplicates", |line| wrong(line.row.sort, &line.invented)),
];

/// Returns the columns for which any of these lines has a value.
pub fn of(group: &Group) -> Vec<Column> {
    ALL.into_iter().filter(|(_, _, cell)| group.lines.iter().any(|line| !cell(line).is_empty())).collect()
}

pub fn median(spread: Option<Spread>, print: fn(f64) -> String) -> String {
    spread.map_or_else(String::new, |spread| print(spread.median))
}

fn span(speed: Spread) -> String {
    match speed.runs {
        1 => String::new(),
        _ => format!("{}–{}", number(speed.lowest), number(speed.highest)),
    }
}

fn speed(line: &Line) -> String {
    match (line.is_measured(), line.fell_behind()) {
        (false, _) => "failed".into(),
        (true, true) => format!("{} (behind)", median(line.row.reached(), number)),
        (true, false) => median(line.speed, number),
    }
}

fn versus(line: &Line) -> String {
    line.versus.as_ref().map_or_else(String::new, |versus| number(versus.times))
}

fn pause(line: &Line) -> String {
    line.row.pause_nanos().filter(|&nanos| nanos > 0).map_or_else(String::new, |nanos| time(nanos as f64))
}

pub fn wrong(sort: Sort, wrong: &Wrong) -> String {
    match sort {
        Sort::Roofline => String::new(),
        _ if wrong.of == 0 => String::new(),
        _ => share(wrong.share()),
    }
}
