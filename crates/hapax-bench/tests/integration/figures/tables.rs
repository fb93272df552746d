//! The tables that documents quote.

use super::kept::{At, HUGE, Kept, Row, plain};
use hapax_bench::measure::{IdKind, Report, Sort};

const BATCH: usize = 1_024;

/// The bytes of the message that is decoded between two checks.
const WORK: usize = 600;

/// The way between one by one and batches.
const AHEAD: &str = "Read ahead, each id is prepared while the one before it is checked; rivals have no such call, so \
                     theirs is one by one. ";

/// Returns the table of a name.
pub fn table(kept: &Kept, name: &str) -> Option<String> {
    let settings = [At::new(1_000_000, 1, 1), At::new(1_000_000, 2, 1), At::new(100_000, 1, 1)];
    let machine = |report| {
        let origin = kept.origin(report);
        format!("{}, {}", origin.machine, origin.pages())
    };
    Some(match name {
        "against the fastest rival" => against_rivals(kept, "report"),
        "against the fastest rival, elsewhere" => {
            let note = format!("On another kind of processor: {}.", machine("elsewhere"));
            format!("{}\n\n{}", paragraph(&note), against_rivals(kept, "elsewhere"))
        }
        "all strategies" => all(kept, "report", &settings),
        "conditions" => conditions(kept),
        "longest waits" => waits(kept),
        "mixes" => mixes(kept),
        "over servers" => stores(kept),
        "readme" => readme(kept),
        "ten million" => {
            let note = format!("Medians of {} rounds or more; {}.", kept.rounds("large"), machine("large"));
            format!("{}\n{}", all(kept, "large", &[At::new(10_000_000, 1, 1)]), paragraph(&note))
        }
        "text" => text(kept),
        "work" => work(kept),
        _ => return None,
    })
}

/// The comparison on the README's first screen.
fn readme(kept: &Kept) -> String {
    let better = |strategy: &str, at, of: fn(&Row) -> Option<f64>| kept.better("report", strategy, at, of);
    let at = |threads, batch| At::new(1_000_000, threads, batch);
    let nanos = |strategy: &str, at| better(strategy, at, |row| Some(row.nanos()));
    let million = |strategy: &str, threads, batch| or_dash(nanos(strategy, at(threads, batch)));
    let ahead = |strategy: &str| {
        let ahead = nanos(strategy, At { ahead: true, ..at(1, 1) });
        or_dash(ahead.or_else(|| nanos(strategy, at(1, 1)))) // a rival has no call for it
    };
    let memory = |strategy: &str| or_dash(kept.memory("report", strategy, 1_000_000));
    let paced = At { paced: true, ..At::new(100_000, 1, 64) };
    let wait = |strategy: &str| better(strategy, paced, |row| row.longest).map_or("–".into(), millis);
    let (pipelined, single) = ("Redis SET NX EX, pipelined", "Redis SET NX EX, one at a time");
    let on_the_server = or_dash(better(pipelined, At::new(1_000_000, 2, BATCH), |row| row.beside));
    let measured = |what: &str, of: &dyn Fn(&str) -> String, redis: String| -> [String; 5] {
        [what.into(), of("Mutex<HashMap>"), of("moka"), redis, of("hapax window")]
    };
    let figures = [
        measured("ns an id, one by one", &|strategy| million(strategy, 1, 1), million(single, 2, BATCH)),
        measured("ns an id, read ahead (`prepare` on receipt)", &ahead, million(single, 2, BATCH)),
        measured("ns an id, in batches", &|strategy| million(strategy, 1, BATCH), million(pipelined, 2, BATCH)),
        measured("bytes an id (Redis: on its server)", &memory, on_the_server),
        measured("longest pause at 100,000 ids a second", &wait, wait(pipelined)),
    ];
    let words = [
        [
            "a worker dies at its work",
            "the message is lost",
            "the same",
            "lost until the key expires",
            "`check`: lost; `claim`: the next worker gets it",
        ],
        ["a restart", "forgets", "forgets", "remembers, as set", "remembers with a journal or a store"],
        ["several processes", "no", "no", "yes", "over Redis, PostgreSQL, DynamoDB; SQLite on one machine"],
        ["values", "yes", "yes", "yes", "no, except results of claims over a store"],
    ];
    let rows = figures.into_iter().chain(words.map(|row| row.map(String::from)));
    let head = ["", "`Mutex<HashMap>`, purged", "moka, time to live", "Redis `SET NX`", "hapax"];
    let note = format!(
        "A million live ids (pauses: 100,000), one in ten a redelivery, one thread (Redis: two). Measured on {}, {}. \
         [All figures](docs/comparison/README.md), also where hapax loses.",
        kept.origin("report").machine,
        kept.origin("report").pages()
    );
    // Words are read from the left.
    format!("{}\n{}", lines(&head, rows.map(Vec::from)).replace("---:", "---"), paragraph(&note))
}

fn conditions(kept: &Kept) -> String {
    let origin = kept.origin("report");
    let (machine, system, pages) = (&origin.machine, &origin.system, origin.pages());
    paragraph(&format!(
        "Picture: a million live ids, two threads; hollow marks one at a time, filled ones in batches of up to 1,024, \
         bars read ahead. Tables: nanoseconds an id in batches (and one by one). {AHEAD}Ids are integers, and one in ten is a redelivery. \
         Medians of three runs in turns, {pages} ({system}), on {machine}. Ratios carry over better than \
         nanoseconds. Of a map that is purged once a window and four times, each figure is the better one.{}",
        by_own_clock(kept)
    ))
}

/// Says what moka, which cannot be given the time, held of the live ids.
fn by_own_clock(kept: &Kept) -> String {
    let held = kept.held("report").expect("moka was measured");
    let [least, most] = held.map(|share| format!("{:.1}", 100.0 * share));
    format!(" To moka ids come by its own clock; it held {least} to {most} % of the live ones.")
}

/// Names the machine of a report, and the day.
pub fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let processors = ["no", "one", "two", "three", "four"].get(machine.processors).copied();
    let processors = processors.map_or_else(|| machine.processors.to_string(), str::to_string);
    let seconds = i64::try_from(report.began_unix_seconds).unwrap();
    let day = jiff::Timestamp::from_second(seconds).unwrap().strftime("%F").to_string();
    format!("{processors} shared cores of an {}, {day}", machine.processor.replace("(R)", ""))
}

fn size(at: &At) -> String {
    match at.live {
        1_000_000.. => format!("{} M live", at.live / 1_000_000),
        _ => format!("{} k live", at.live / 1_000),
    }
}

fn place(at: &At) -> String {
    format!("{}, {}", size(at), if at.threads == 1 { "1 thread" } else { "2 threads" })
}

/// Returns a name as documents print it: what has brackets is code.
fn name(strategy: &str) -> String {
    match strategy.split_once('>') {
        Some((code, rest)) => format!("`{code}>`{rest}"),
        None => strategy.to_string(),
    }
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or("–".to_string(), figure)
}

fn times(ours: &Row, rival: &Row) -> String {
    let [times, least, most] = ours.times(rival).map(|times| format!("{times:.2}"));
    format!("{times} ({least}-{most})")
}

/// Nanoseconds an id of all windows, in batches and one by one, in some settings; the fastest
/// first.
fn all(kept: &Kept, report: &str, settings: &[At]) -> String {
    let batched = |at: &At| At { batch: BATCH, ..*at };
    let nanos = |strategy: &str, at| kept.better(report, strategy, at, |row| Some(row.nanos()));
    let figures = |strategy: &str, at: &At| match (nanos(strategy, batched(at)), nanos(strategy, *at)) {
        // It has no call that takes many.
        (Some(batched), Some(single)) if batched > 0.95 * single => figure(single.min(batched)),
        (Some(batched), Some(single)) => format!("{} ({})", figure(batched), figure(single)),
        (batched, single) => or_dash(batched.or(single)),
    };
    let first = batched(&settings[0]);
    let mut names = kept.names(report, Sort::Window, first);
    names.sort_by(|a, b| nanos(a, first).unwrap().total_cmp(&nanos(b, first).unwrap()));
    let row = |strategy: &&str| {
        let memory = kept.memory(report, strategy, first.live).map_or(String::new(), figure);
        let figures = settings.iter().map(|at| figures(strategy, at));
        [name(strategy)].into_iter().chain(figures).chain([memory]).collect()
    };
    let places: Vec<String> = settings.iter().map(place).collect();
    let head: Vec<&str> =
        [""].into_iter().chain(places.iter().map(String::as_str)).chain(["bytes a live id"]).collect();
    lines(&head, names.iter().map(row))
}

/// The window, alone and with its history, against the fastest rival of each setting.
fn against_rivals(kept: &Kept, report: &str) -> String {
    let (mut rows, is_here) = (Vec::new(), report == "report");
    for (live, threads) in [(100_000, 1), (100_000, 2), (1_000_000, 1), (1_000_000, 2)] {
        let ways = [(BATCH, false, "batches"), (1, true, "read ahead"), (1, false, "one by one")];
        for (batch, ahead, how) in ways.into_iter().filter(|way| !way.1 || is_here) {
            let at = At { ahead, ..At::new(live, threads, batch) };
            let how = if batch == 1 { how.to_string() } else { format!("{}: {how}", place(&at)) };
            let rival = kept.rival(report, at);
            let ours = |strategy: &str| kept.of(report, strategy, at)[0];
            let mut row = vec![
                how,
                format!("{}: {}", name(plain(&rival.strategy)), figure(rival.nanos())),
                figure(ours("hapax window").nanos()),
                times(ours("hapax window"), rival),
                times(ours("hapax window+history"), rival),
            ];
            if is_here {
                row.push(times(kept.of(HUGE, "hapax window", at)[0], kept.rival(HUGE, at)));
            }
            rows.push(row);
        }
    }
    let head = ["", "fastest rival: ns", "window: ns", "times as fast", "with history", "all on huge pages"];
    lines(&head[..head.len() - usize::from(!is_here)], rows)
}

/// Other mixes of ids, each a report of its own, and the mean of them.
fn mixes(kept: &Kept) -> String {
    const MIXES: [(&str, IdKind, &str); 8] = [
        ("mix-0", IdKind::U64, "no redeliveries"),
        ("mix-10", IdKind::U64, "10 % redeliveries"),
        ("mix-50", IdKind::U64, "50 %"),
        ("mix-90", IdKind::U64, "90 %"),
        ("mix-99", IdKind::U64, "99 %"),
        ("mix-zipf", IdKind::U64, "Zipf 0.99"),
        ("mix-uuid-text", IdKind::UuidText, "10 %, UUIDs as text"),
        ("mix-key200", IdKind::Key200, "10 %, ids of 200 bytes"),
    ];
    let ours = [BATCH, 1].map(|batch| ["hapax window", "hapax window+history"].map(|strategy| (strategy, batch)));
    let mut products = [1.0; 4];
    let mut rows = Vec::new();
    for (report, ids, words) in MIXES {
        let at = |batch| At { ids, ..At::new(300_000, 1, batch) };
        let fastest = kept.rival(report, at(BATCH));
        let mut row =
            vec![words.to_string(), format!("{}: {}", name(plain(&fastest.strategy)), figure(fastest.nanos()))];
        for ((strategy, batch), product) in ours.concat().into_iter().zip(&mut products) {
            let (ours, rival) = (kept.of(report, strategy, at(batch))[0], kept.rival(report, at(batch)));
            *product *= ours.times(rival)[0];
            row.push(times(ours, rival));
        }
        rows.push(row);
    }
    let means = products.map(|product| format!("{:.2}", f64::powf(product, 1.0 / MIXES.len() as f64)));
    rows.push(["*geometric mean*".to_string(), String::new()].into_iter().chain(means).collect());
    let head = ["", "fastest rival: ns", "window", "with history", "one by one", "with history"];
    let origin = kept.origin("mix-0");
    let note = format!("Medians of 3 rounds, least and most; {}, {}.", origin.machine, origin.pages());
    format!("{}\n{}", lines(&head, rows), paragraph(&note))
}

/// Ids as text: maps with copies of them, and maps of digests.
fn text(kept: &Kept) -> String {
    let at = |live| At { ids: IdKind::UuidText, ..At::new(live, 1, BATCH) };
    let (small, large) = (at(1_000_000), at(10_000_000));
    let nanos = |strategy: &str, at| kept.better("text", strategy, at, |row| Some(row.nanos()));
    let mut names = kept.names("text", Sort::Window, large);
    names.sort_by(|a, b| nanos(a, large).unwrap().total_cmp(&nanos(b, large).unwrap()));
    let row = |strategy: &&str| {
        let bytes = kept.better("text", strategy, large, |row| row.bytes);
        vec![name(strategy), or_dash(nanos(strategy, small)), or_dash(nanos(strategy, large)), or_dash(bytes)]
    };
    lines(&["", "1 M live: ns", "10 M live: ns", "bytes a live id"], names.iter().map(row))
}

/// The longest wait of ids that were due at a rate.
fn waits(kept: &Kept) -> String {
    let at = At { paced: true, ..At::new(100_000, 1, 64) };
    let names = [Sort::Window, Sort::Durable, Sort::Server].map(|sort| kept.names("report", sort, at)).concat();
    let told = |name| (name, kept.better("report", name, at, |row| row.longest));
    let mut rows: Vec<(&str, Option<f64>)> = names.into_iter().map(told).collect();
    rows.sort_by(|a, b| a.1.unwrap_or(f64::INFINITY).total_cmp(&b.1.unwrap_or(f64::INFINITY)));
    let wait = |wait: Option<f64>| wait.map_or("does not keep up".to_string(), millis);
    lines(&["", "longest wait"], rows.into_iter().map(|(strategy, waited)| vec![name(strategy), wait(waited)]))
}

/// Strategies that survive a crash, and those that ask a server: two threads, batches of 1,024.
fn stores(kept: &Kept) -> String {
    let at = At::new(1_000_000, 2, BATCH);
    let mut rows = Vec::new();
    for sort in [Sort::Durable, Sort::Server] {
        let names = kept.names("report", sort, at);
        let mut of_sort: Vec<&Row> = names.iter().map(|name| kept.of("report", name, at)[0]).collect();
        of_sort.sort_by(|a, b| a.nanos().total_cmp(&b.nanos()));
        for row in of_sort {
            let (speed, cpu) = (figure(1e6 / row.nanos()), row.cpu.map(|nanos| nanos / 1e3));
            rows.push(vec![name(&row.strategy), speed, or_dash(cpu), or_dash(row.beside)]);
        }
    }
    lines(&["", "k ids/s", "processor, us an id", "bytes an id on disk or server"], rows)
}

/// Nanoseconds that a check adds to a loop with work.
fn work(kept: &Kept) -> String {
    let mut rows = Vec::new();
    for live in [100_000, 1_000_000] {
        let at = At { work: WORK, ..At::new(live, 1, 1) };
        let (rival, ours) = (kept.rival("work", at), |at| kept.of("work", "hapax window", at)[0]);
        let (single, ahead) = (ours(at), ours(At { ahead: true, ..at }));
        rows.push(vec![
            format!("{}, {} ns of work", size(&at), or_dash(single.worked)),
            format!("{}: {}", name(plain(&rival.strategy)), figure(rival.nanos())),
            figure(single.nanos()),
            figure(ahead.nanos()),
        ]);
    }
    let origin = kept.origin("work");
    let note = format!("Medians of {} rounds; {}, {}.", kept.rounds("work"), origin.machine, origin.pages());
    format!("{}\n{}", lines(&["", "fastest rival: ns", "window: ns", "read ahead: ns"], rows), paragraph(&note))
}

/// Prints two or three significant digits: as many as repeat.
fn figure(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".to_string(),
        _ if value >= 999.5 => grouped(value),
        _ if value >= 19.95 => format!("{value:.0}"),
        _ if value >= 0.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Prints a whole number with commas, three digits of it being meant.
fn grouped(value: f64) -> String {
    let unit = 10_f64.powf(value.log10().floor() - 2.0).max(1.0);
    let digits = format!("{:.0}", (value / unit).round() * unit);
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn millis(nanos: f64) -> String {
    format!("{} ms", figure(nanos / 1e6))
}

/// Breaks a paragraph into lines of at most 100 columns.
fn paragraph(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let columns = word.chars().count();
        let is_next = width > 0 && width + 1 + columns <= 100;
        lines += if is_next {
            " "
        } else if width > 0 {
            "\n"
        } else {
            ""
        };
        lines += word;
        width = if is_next { width + 1 + columns } else { columns };
    }
    lines
}

/// Makes a table: the first column is text, the others are figures.
fn lines(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rules: Vec<&str> = (0..head.len()).map(|i| if i == 0 { "---" } else { "---:" }).collect();
    let head: Vec<String> = head.iter().map(|cell| cell.to_string()).collect();
    let rows: String = rows.into_iter().map(|row| line(&row)).collect();
    format!("{}|{}|\n{rows}", line(&head), rules.join("|")).replace("|  |", "| |")
}

#[test]
fn figures_have_the_digits_that_repeat() {
    let printed = [0.2641, 2.34, 18.42, 40.4, 999.4, 999.6, 2_917.3, 25_049.0, 1_234_567.0].map(figure);
    assert_eq!(printed, ["0.26", "2.3", "18.4", "40", "999", "1,000", "2,920", "25,000", "1,230,000"]);
    assert_eq!(millis(261_000.0), "0.26 ms");
    assert_eq!(lines(&["", "ns"], [vec!["a".into(), "1".into()]]), "| | ns |\n|---|---:|\n| a | 1 |\n");
    assert_eq!(paragraph(&"ten chars. ".repeat(20)).lines().map(str::len).max(), Some(98));
}
