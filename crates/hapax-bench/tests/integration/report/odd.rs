//! Unusual reports and names.

use crate::report::fixture::{self, Random};
use crate::report::pages::{elements, parsed, text_of};
use hapax_bench::measure::{Absent, Answers, Latency, Measurement, Report, Sort, render};

/// Makes the page and the table of a report, the first parsed.
fn both(report: &Report) -> [String; 2] {
    let html = render::html(report);
    parsed(&html);
    assert!(!html.contains("NaN") && !html.contains(">inf"), "{html}");
    [html, render::table(report)]
}

#[test]
fn nothing_measured() {
    let mut report = fixture::report(1);
    report.rows.clear();
    let pages = both(&report);
    assert!(pages.iter().all(|page| page.contains("Nothing was measured")));
    // What has nothing to say is not there.
    assert!(render::pictures(&report).is_empty() && !pages[0].contains("<table") && !pages[0].contains("Take "));
}

#[test]
fn interrupted() {
    let mut report = fixture::report(1);
    report.interrupted = true;
    report.rows.truncate(9);
    assert!(both(&report).iter().all(|page| page.contains("interrupted")));
}

#[test]
fn one_row_and_one_run() {
    let mut report = fixture::small();
    report.rows.retain(|row| row.strategy == "DashMap");
    report.rows[0].runs.truncate(1);
    assert!(both(&report).iter().all(|page| page.contains("Take DashMap")));
}

#[test]
fn failures_only() {
    let mut report = fixture::small();
    for row in &mut report.rows {
        row.runs.clear();
        row.failures = vec!["killed: out of memory".into(); 3];
    }
    for page in both(&report) {
        assert!(page.contains("killed: out of memory") && page.contains("6 runs failed"), "{page}");
    }
}

const HOSTILE: [&str; 6] = [
    "</title><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "\u{1b}[2J\u{7}\u{0}\u{202e}\u{ffff}\r\nnext line",
    "]]>&amp;&lt;&#x3c;",
    "{title} {0} <!--",
    "",
];

#[test]
fn hostile_names_are_text() {
    let mut report = fixture::report(1);
    for (i, row) in report.rows.iter_mut().enumerate() {
        row.strategy = HOSTILE[i % HOSTILE.len()].repeat(1 + i % 3);
        row.failures = vec![HOSTILE[(i + 1) % HOSTILE.len()].into()];
    }
    report.command = HOSTILE.join(" ");
    report.machine.processor = HOSTILE[0].into();
    report.absent = HOSTILE.iter().map(|name| Absent { strategy: (*name).into(), reason: (*name).into() }).collect();
    let [html, table] = both(&report);
    let page = parsed(&html);
    assert!(elements(&page, "script").is_empty() && elements(&page, "img").is_empty());
    let said: String = elements(&page, "dd").into_iter().map(text_of).collect();
    assert!(said.contains(HOSTILE[0]) && said.contains(HOSTILE[3]), "{said}");
    for page in [html, table] {
        assert!(!page.contains(['\u{1b}', '\u{7}', '\u{0}']));
    }
}

#[test]
fn a_name_of_ten_thousand_characters() {
    let mut report = fixture::small();
    report.rows[1].strategy = "x".repeat(10_000);
    let table = render::table(&report);
    assert!(table.lines().any(|line| line.starts_with("xxx") && line.contains('…') && line.chars().count() <= 220));
    let table = render::table(&fixture::report(3));
    assert!(!table.contains('…'), "a name of ours is cut: {table}");
    both(&report);
}

/// Checks numbers that no measurement has.
#[test]
fn any_numbers_make_a_page() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_122);
    println!("SEED={seed}");
    let mut random = Random(seed);
    for _ in 0..10 {
        let mut report = fixture::report(random.next());
        for row in &mut report.rows {
            row.runs.iter_mut().for_each(|run| *run = any_run(&mut random));
            row.setting.live = odd(&mut random) as usize;
            row.setting.work = odd(&mut random) as usize;
            row.setting.threads = odd(&mut random) as usize;
            row.setting.rate = row.setting.rate.map(|_| odd_float(&mut random));
            (row.may_miss, row.may_invent) = (odd_float(&mut random), odd_float(&mut random));
            if random.next().is_multiple_of(4) {
                row.sort = Sort::Server;
            }
        }
        report.began_unix_seconds = odd(&mut random);
        both(&report);
    }
}

fn odd(random: &mut Random) -> u64 {
    [0, 1, 2, 1_000, 1 << 40, u64::MAX - 1, u64::MAX][(random.next() % 7) as usize]
}

fn odd_float(random: &mut Random) -> f64 {
    [0.0, 1e-300, 0.5, 1.0, 1e300, f64::INFINITY, f64::NAN, -1.0][(random.next() % 8) as usize]
}

fn any_run(random: &mut Random) -> Measurement {
    let [p50, p99, p99_9, longest] = [(); 4].map(|()| odd(random));
    let [fresh, invented, duplicates, missed, twice] = [(); 5].map(|()| odd(random));
    Measurement {
        checks: odd(random),
        nanos: odd(random),
        cpu_nanos: odd(random),
        server_cpu_nanos: Some(odd(random)),
        bytes: odd(random),
        beside_bytes: Some(odd(random)),
        held: odd(random),
        answers: Answers { fresh, invented, duplicates, missed, twice },
        latency: Some(Latency { reached: odd_float(random), p50, p99, p99_9, longest }),
        work_nanos: odd(random),
    }
}
