//! The columns that all tables have in common.

use super::numbers::{count, digits, large, time};
use super::view::{Group, Line, QUANTILES, Spread, Wrong};
use crate::measure::Sort;

pub struct Column {
    pub head: &'static str,
    /// The explanation of the column's head.
    pub says: &'static str,
    pub cell: fn(&Line) -> String,
}

const ALL: [Column; 16] = [
    Column { head: "ids/s", says: "checks a second, median of the runs", cell: speed },
    Column {
        head: "slowest–fastest",
        says: "the slowest and the fastest run",
        cell: |line| spread(line.speed.as_ref(), large),
    },
    Column { head: "ns/id", says: "wall time by checks", cell: |line| median(line.nanos.as_ref(), digits) },
    Column { head: "× rival", says: "times as fast as the fastest of the same sort that is not hapax", cell: versus },
    Column { head: QUANTILES[0].1, says: "half of the ids took at most so long", cell: |line| latency(line, 0) },
    Column { head: QUANTILES[1].1, says: "99 % took at most so long", cell: |line| latency(line, 1) },
    Column { head: QUANTILES[2].1, says: "99.9 % took at most so long", cell: |line| latency(line, 2) },
    Column { head: QUANTILES[3].1, says: "99.99 % took at most so long", cell: |line| latency(line, 3) },
    Column {
        head: "B/id",
        says: "memory of the process by live ids; empty if it is too little to be told, or holds few of them",
        cell: |line| median(line.bytes.as_ref(), digits),
    },
    Column {
        head: "beside B/id",
        says: "memory or disk of a server or a directory by live ids",
        cell: |line| median(line.beside.as_ref(), digits),
    },
    Column {
        head: "CPU ns/id",
        says: "processor time of the process by checks",
        cell: |line| median(line.row.cpu_nanos_per_id().as_ref(), digits),
    },
    Column {
        head: "server ns/id",
        says: "processor time of the server by checks",
        cell: |line| median(line.row.server_cpu_nanos_per_id().as_ref(), digits),
    },
    Column { head: "start", says: "time to build it", cell: |line| median(line.row.start_nanos().as_ref(), time) },
    Column { head: "pause", says: "the longest that a thread was held up by one call", cell: pause },
    Column { head: "missed", says: "duplicates that it called fresh", cell: |line| wrong(line, &line.missed) },
    Column { head: "invented", says: "new ids that it called duplicates", cell: |line| wrong(line, &line.invented) },
];

/// Returns the columns for which any of these lines has a value.
pub fn of(group: &Group) -> Vec<Column> {
    let says = |column: &Column| group.lines.iter().any(|line| !(column.cell)(line).is_empty());
    ALL.into_iter().filter(says).collect()
}

pub fn all() -> [Column; 16] {
    ALL
}

fn median(spread: Option<&Spread>, number: fn(f64) -> String) -> String {
    spread.map_or_else(String::new, |spread| number(spread.median))
}

fn spread(spread: Option<&Spread>, number: fn(f64) -> String) -> String {
    match spread {
        Some(spread) if spread.runs > 1 => format!("{}–{}", number(spread.lowest), number(spread.highest)),
        _ => String::new(),
    }
}

fn speed(line: &Line) -> String {
    match (line.is_measured(), line.fell_behind()) {
        (false, _) => "failed".into(),
        (true, true) => format!("{} (behind)", median(line.row.reached().as_ref(), large)),
        (true, false) => median(line.speed.as_ref(), large),
    }
}

fn versus(line: &Line) -> String {
    line.versus.as_ref().map_or_else(String::new, |versus| digits(versus.times))
}

fn latency(line: &Line, which: usize) -> String {
    median(line.quantiles[which].as_ref(), time)
}

fn pause(line: &Line) -> String {
    line.row.pause_nanos().filter(|&nanos| nanos > 0).map_or_else(String::new, |nanos| time(nanos as f64))
}

fn wrong(line: &Line, wrong: &Wrong) -> String {
    match wrong {
        _ if line.row.sort == Sort::Roofline || wrong.of == 0 => String::new(),
        Wrong { wrong: 0, .. } => "0".into(),
        _ => format!("{} ({})", count(wrong.wrong), short_share(wrong.share())),
    }
}

fn short_share(share: f64) -> String {
    match share >= 1e-3 {
        true => format!("{} %", digits(100.0 * share)),
        false => format!("{share:.1e}"),
    }
}
