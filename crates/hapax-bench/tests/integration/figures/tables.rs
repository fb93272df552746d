//! Tables of figures.

use super::kept::{self, At, Kept, bytes, bytes_beside, longest, nanos, processor_nanos};
use super::words::{figure, millis, share, table};
use hapax_bench::measure::{IdKind, ROOFLINE, Row, Sort};

pub const BATCH: usize = 1_024;

fn live(live: usize) -> String {
    match live {
        1_000_000.. => format!("{} M live", live / 1_000_000),
        _ => format!("{} k live", live / 1_000),
    }
}

fn threads(threads: usize) -> &'static str {
    if threads == 1 { "1 thread" } else { "2 threads" }
}

fn batched(at: &At) -> At {
    At { batch: BATCH, ..*at }
}

/// Returns a name as documents print it: what has brackets is code.
pub fn name(strategy: &str) -> String {
    match strategy {
        ROOFLINE => "*prefetch a line of such a table and add to it*".to_string(),
        _ if strategy.contains('<') => {
            let (code, rest) = strategy.split_at(strategy.find('>').map_or(0, |end| end + 1));
            format!("`{code}`{rest}")
        }
        _ => strategy.to_string(),
    }
}

/// Nanoseconds an id of all windows, in batches and one by one, in some settings; the fastest
/// first.
pub fn all(report: &Kept, settings: &[At]) -> String {
    let first = settings[0];
    let figures = |strategy: &str, at: &At| {
        let of = |at: At| report.better(strategy, at, |row| Some(nanos(row)));
        match (of(batched(at)), of(*at)) {
            // It has no call that takes many.
            (Some(batched), Some(single)) if batched > 0.95 * single => figure(single.min(batched)),
            (Some(batched), Some(single)) => format!("{} ({})", figure(batched), figure(single)),
            (batched, single) => batched.or(single).map_or("–".to_string(), figure),
        }
    };
    let speed = |strategy: &&str| report.better(strategy, batched(&first), |row| Some(nanos(row))).unwrap();
    let mut names = report.names(Sort::Window, batched(&first));
    names.sort_by(|a, b| speed(a).total_cmp(&speed(b)));
    names.extend(report.names(Sort::Roofline, batched(&first)));
    let row = |strategy: &&str| {
        let memory = report.memory(strategy, first.live).map_or(String::new(), figure);
        let figures = settings.iter().map(|at| figures(strategy, at));
        [name(strategy)].into_iter().chain(figures).chain([memory]).collect()
    };
    let places: Vec<String> = settings.iter().map(|at| format!("{}, {}", live(at.live), threads(at.threads))).collect();
    let head: Vec<&str> =
        [""].into_iter().chain(places.iter().map(String::as_str)).chain(["bytes a live id"]).collect();
    table(&head, names.iter().map(row))
}

/// The window, alone and with its history, against the fastest rival of each setting.
pub fn against_rivals(report: &Kept) -> String {
    let mut rows = Vec::new();
    for (size, threads_) in [(100_000, 1), (100_000, 2), (1_000_000, 1), (1_000_000, 2)] {
        for batch in [BATCH, 1] {
            let at = At::new(size, threads_, batch);
            // A caller with a batch may hand it over one by one.
            let settings = if batch == 1 { vec![at] } else { vec![at, At { batch: 1, ..at }] };
            let rival = report.rival(Sort::Window, &settings);
            let ours = |strategy: &str| {
                let (times, least, most) = kept::times(report.of(strategy, at)[0], rival);
                let spread = [times, least, most].map(|times| format!("{times:.2}"));
                format!("{} x ({} to {})", spread[0], spread[1], spread[2])
            };
            let how = if batch == 1 { "one by one" } else { "batches" };
            rows.push(vec![
                format!("{}, {}, {how}", live(size), threads(threads_)),
                format!("{}: {}", name(&rival.strategy), figure(nanos(rival))),
                figure(nanos(report.of("hapax window", at)[0])),
                ours("hapax window"),
                ours("hapax window+history"),
            ]);
        }
    }
    table(&["", "fastest rival: ns", "window: ns", "times as fast", "with history"], rows)
}

/// Ids as text: maps with copies of them, and maps of digests.
pub fn text(report: &Kept) -> String {
    let at = |live| At { ids: IdKind::UuidText, ..At::new(live, 1, BATCH) };
    let (small, large) = (at(1_000_000), at(10_000_000));
    let speed = |strategy: &&str| report.better(strategy, large, |row| Some(nanos(row))).unwrap_or(f64::INFINITY);
    let mut names = report.names(Sort::Window, large);
    names.sort_by(|a, b| speed(a).total_cmp(&speed(b)));
    let row = |strategy: &&str| {
        let of = |at, of: fn(&Row) -> Option<f64>| report.better(strategy, at, of).map_or("–".to_string(), figure);
        let nanos = |row: &Row| Some(nanos(row));
        vec![name(strategy), of(small, nanos), of(large, nanos), of(large, bytes)]
    };
    table(&["", "1 M live: ns", "10 M live: ns", "bytes a live id"], names.iter().map(row))
}

/// The longest wait of ids that were due at a rate.
pub fn waits(report: &Kept) -> String {
    let at = At { paced: true, ..At::new(100_000, 1, 64) };
    let names = [Sort::Window, Sort::Durable, Sort::Server].map(|sort| report.names(sort, at));
    let told = |strategy: &str| report.better(strategy, at, longest);
    let mut rows: Vec<(&str, Option<f64>)> = names.concat().into_iter().map(|name| (name, told(name))).collect();
    rows.sort_by(|a, b| a.1.unwrap_or(f64::INFINITY).total_cmp(&b.1.unwrap_or(f64::INFINITY)));
    let wait = |wait: Option<f64>| wait.map_or("does not keep up".to_string(), millis);
    table(&["", "longest wait"], rows.into_iter().map(|(strategy, waited)| vec![name(strategy), wait(waited)]))
}

/// Strategies that survive a crash, and those that ask a server: two threads, batches of 1,024.
pub fn stores(report: &Kept) -> String {
    let at = At::new(1_000_000, 2, BATCH);
    let mut rows = Vec::new();
    for sort in [Sort::Durable, Sort::Server] {
        let mut of_sort: Vec<_> = report.names(sort, at).iter().map(|name| report.of(name, at)[0]).collect();
        of_sort.sort_by(|a, b| nanos(a).total_cmp(&nanos(b)));
        for row in of_sort {
            rows.push(vec![
                name(&row.strategy),
                figure(1e6 / nanos(row)),
                processor_nanos(row).map_or("–".to_string(), |nanos| figure(nanos / 1e3)),
                bytes_beside(row).map_or("–".to_string(), figure),
            ]);
        }
    }
    table(&["", "k ids/s", "processor, us an id", "bytes an id on disk or server"], rows)
}

/// Wrong answers of strategies with less memory than they need.
pub fn budgets(report: &Kept) -> String {
    const BUDGETS: [u64; 6] = [4, 8, 12, 16, 24, 48];
    let at = |budget| At { budget: Some(budget), ..At::new(100_000, 1, BATCH) };
    let names = [Sort::Window, Sort::Filter].map(|sort| report.names(sort, at(BUDGETS[0]))).concat();
    let wrong = |strategy: &str, budget| report.better(strategy, at(budget), kept::wrong).map_or("–".into(), share);
    let row = |strategy: &str| {
        [name(strategy)].into_iter().chain(BUDGETS.map(|budget| wrong(strategy, budget))).collect::<Vec<_>>()
    };
    let bytes = BUDGETS.map(|bytes| bytes.to_string());
    let head: Vec<&str> = ["bytes a live id"].into_iter().chain(bytes.iter().map(String::as_str)).collect();
    table(&head, names.into_iter().map(row))
}
