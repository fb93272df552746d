//! The passages of documents that quote figures.

use super::kept::{At, Kept, bytes_beside, longest, nanos};
use super::words::{day, figure, millis, paragraph, table};
use super::{mixes, tables};

/// The names of all passages, sorted.
pub const NAMES: [&str; 15] = [
    "against the fastest rival",
    "against the fastest rival, with AVX-512",
    "all strategies",
    "claims",
    "conditions",
    "filter",
    "filter-spill",
    "journal",
    "longest waits",
    "mixes",
    "over servers",
    "readme",
    "scale",
    "ten million",
    "text",
];

/// Returns a passage.
pub fn passage(name: &str) -> Option<String> {
    let report = &Kept::read("report.json");
    let settings = [At::new(1_000_000, 1, 1), At::new(1_000_000, 2, 1), At::new(100_000, 1, 1)];
    Some(match name {
        "against the fastest rival" => tables::against_rivals(report),
        "against the fastest rival, with AVX-512" => with_avx512(&Kept::read("avx512.json")),
        "all strategies" => tables::all(report, &settings),
        "claims" | "filter" | "filter-spill" | "growth" | "http" | "journal" | "scale" => printed(name),
        "conditions" => conditions(report),
        "less memory" => tables::budgets(report),
        "longest waits" => tables::waits(report),
        "mixes" => mixes::mixes(machine),
        "over servers" => tables::stores(report),
        "readme" => readme(report),
        "ten million" => ten_million(&Kept::read("large.json")),
        "text" => tables::text(&Kept::read("text.json")),
        _ => return None,
    })
}

/// The output of another benchmark, as it was kept.
fn printed(name: &str) -> String {
    let path = super::root().join("docs/comparison").join(name).with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    format!("```text\n{}\n```", text.trim_end())
}

/// The comparison on the README's first screen.
fn readme(report: &Kept) -> String {
    let million = |strategy: &str, threads: usize, batch: usize| {
        figure(report.better(strategy, At::new(1_000_000, threads, batch), |row| Some(nanos(row))).unwrap())
    };
    let memory = |strategy: &str| figure(report.memory(strategy, 1_000_000).unwrap());
    let paced = At { paced: true, ..At::new(100_000, 1, 64) };
    let wait = |strategy: &str| millis(report.better(strategy, paced, longest).unwrap());
    let (pipelined, single) = ("Redis SET NX EX, pipelined", "Redis SET NX EX, one at a time");
    let on_the_server = report.better(pipelined, At::new(1_000_000, 2, 1_024), bytes_beside).unwrap();
    let measured = |what: &str, of: &dyn Fn(&str) -> String, redis: String| -> [String; 5] {
        [what.into(), of("Mutex<HashMap>"), of("moka"), redis, of("hapax window")]
    };
    let rows: [[String; 5]; 8] = [
        measured("ns an id, one by one", &|strategy| million(strategy, 1, 1), million(single, 2, 1_024)),
        measured("ns an id, in batches", &|strategy| million(strategy, 1, 1_024), million(pipelined, 2, 1_024)),
        measured("bytes an id (Redis: on its server)", &memory, figure(on_the_server)),
        measured("longest pause at 100,000 ids a second", &wait, wait(pipelined)),
        [
            "a worker dies at its work",
            "the message is lost",
            "the same",
            "lost until the key expires",
            "`check`: lost; `claim`: the next worker gets it",
        ]
        .map(String::from),
        ["a restart", "forgets", "forgets", "remembers, as set", "remembers with a journal or a store"]
            .map(String::from),
        ["several processes", "no", "no", "yes", "over Redis, PostgreSQL, DynamoDB; SQLite on one machine"]
            .map(String::from),
        ["values", "yes", "yes", "yes", "no, but for results of claims over a store"].map(String::from),
    ];
    let head = ["", "`Mutex<HashMap>`, purged", "moka, time to live", "Redis `SET NX`", "hapax"];
    let note = format!(
        "A million live ids (pauses: 100,000), one in ten a redelivery, one thread (Redis: two). Measured on {}. \
         [All figures](docs/comparison/README.md), also where hapax loses.",
        machine(report)
    );
    // Words are read from the left.
    let table = table(&head, rows.map(Vec::from)).replace("---:", "---");
    format!("{table}\n{}", paragraph(&note))
}

/// Names the machine and the day.
fn machine(report: &Kept) -> String {
    let machine = &report.0.machine;
    let processors = ["no", "one", "two", "three", "four"].get(machine.processors).copied();
    let processors = processors.map_or_else(|| machine.processors.to_string(), str::to_string);
    let processor = machine.processor.replace("(R)", "");
    format!("{processors} shared cores of an {processor}, {}", day(report.0.began_unix_seconds))
}

fn conditions(report: &Kept) -> String {
    let of = |sort: fn(usize, usize) -> usize| report.0.rows.iter().map(|row| row.runs.len()).reduce(sort).unwrap();
    assert_eq!((of(usize::min), of(usize::max)), (3, 3), "all rows have three runs");
    let system = &report.0.machine.system;
    let pages = if system.contains("by all") { "all" } else { "only hapax" };
    let purges = match report.has_both_purges() {
        true => "Of a map that is purged once a window and four times, each figure is the better one.",
        false => "Maps are purged once a window.",
    };
    paragraph(&format!(
        "Nanoseconds an id in batches of up to 1,024 (and one by one). Ids are integers, and one in ten is a \
         redelivery. All strategies get the same stream, and their answers are checked. Medians of three runs in \
         turns, each in a process of its own, {pages} on huge pages ({system}), on {}. Ratios carry over better than \
         nanoseconds. {purges}",
        machine(report),
    ))
}

/// Another kind of processor.
fn with_avx512(report: &Kept) -> String {
    let note = format!("On another kind of processor, with AVX-512: {}.", machine(report));
    format!("{}\n\n{}", paragraph(&note), tables::against_rivals(report))
}

fn ten_million(report: &Kept) -> String {
    let settings = [At::new(10_000_000, 1, 1)];
    let rounds = report.0.rows.iter().map(|row| row.runs.len()).min().unwrap();
    let note = format!("Medians of {rounds} rounds or more; {}.", machine(report));
    format!("{}\n{}", tables::all(report, &settings), paragraph(&note))
}
