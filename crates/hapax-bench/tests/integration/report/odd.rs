//! Unusual reports and names.

use crate::report::fixture::{self, Random};
use crate::report::pages::{elements, parsed, text_of};
use hapax_bench::measure::{Absent, Answers, Latency, Measurement, Quantile, Report, Shape, Sort, compare, render};

/// Makes all pages of a report, each parsed where there is a parser.
fn all_pages(report: &Report) -> Vec<String> {
    let html = render::html(report);
    parsed(&html);
    let csv = render::csv(report);
    let lines = csv::Reader::from_reader(csv.as_bytes()).into_records().map(Result::unwrap).count();
    assert_eq!(lines, report.rows.iter().map(|row| row.runs.len() + row.failures.len()).sum::<usize>());
    for (name, svg) in render::svg(report) {
        parsed(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}: {svg}");
        assert!(
            name.ends_with(".svg") && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.'),
            "{name}"
        );
    }
    assert!(!html.contains("NaN"), "{html}");
    vec![
        html,
        csv,
        render::markdown(report),
        render::table(report),
        render::table_within(report, 80),
        compare(report, report).to_string(),
    ]
}

#[test]
fn nothing_measured() {
    let mut report = fixture::report(1);
    report.rows.clear();
    let pages = all_pages(&report);
    assert!(pages[0].contains("Nothing was measured") && pages[3].contains("Nothing was measured"));
    assert!(render::svg(&report).is_empty());
    // What has nothing to say is not there.
    assert!(!pages[0].contains("<table") && !pages[0].contains("Which one to take"));
}

#[test]
fn interrupted() {
    let mut report = fixture::report(1);
    report.interrupted = true;
    report.rows.truncate(9);
    let pages = all_pages(&report);
    for page in [&pages[0], &pages[2], &pages[3]] {
        assert!(page.contains("interrupted"), "{page}");
    }
}

#[test]
fn few_live_ids() {
    let mut report = fixture::small();
    assert!(!render::html(&report).contains("how time moves on"));
    report.rows[0].setting.live = 8;
    let pages = all_pages(&report);
    for page in [&pages[0], &pages[2], &pages[3]] {
        assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains("how time moves on"), "{page}");
    }
}

#[test]
fn one_row_and_one_run() {
    let mut report = fixture::small();
    report.rows.retain(|row| row.strategy == "DashMap");
    report.rows[0].runs.truncate(1);
    let pages = all_pages(&report);
    assert!(pages[0].contains("DashMap"));
    assert!(pages[5].contains("cannot be told"), "{}", pages[5]);
}

#[test]
fn failures_only() {
    let mut report = fixture::small();
    for row in &mut report.rows {
        row.runs.clear();
        row.failures = vec!["killed: out of memory".into(); 3];
    }
    let pages = all_pages(&report);
    for page in [&pages[0], &pages[2], &pages[3]] {
        assert!(page.contains("killed: out of memory") && page.contains("9 runs failed"), "{page}");
    }
}

const HOSTILE: [&str; 7] = [
    "</title><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "a|b`c*d_[e](javascript:alert(1))<!--",
    "=cmd(),\"quoted\"\r\nnext line",
    "\u{1b}[2J\u{7}\u{0}\u{202e}\u{ffff}",
    "]]>&amp;&lt;&#x3c;",
    "",
];

#[test]
fn hostile_names_are_text() {
    let mut report = fixture::report(1);
    let names: Vec<String> = report.rows.iter().map(|row| row.strategy.clone()).collect();
    for (row, name) in report.rows.iter_mut().zip(&names) {
        row.strategy = HOSTILE[name.len() % HOSTILE.len()].repeat(1 + name.len() % 3);
        row.failures = vec![HOSTILE[(name.len() + 1) % HOSTILE.len()].into()];
        row.setting.workload.shape = Shape::Trace { path: HOSTILE[1].into() };
    }
    report.command = HOSTILE.join(" ");
    report.machine.processor = HOSTILE[0].into();
    report.machine.libraries[0].name = HOSTILE[2].into();
    report.absent = HOSTILE.iter().map(|name| Absent { strategy: (*name).into(), reason: (*name).into() }).collect();
    let pages = all_pages(&report);
    let page = parsed(&pages[0]);
    assert!(elements(&page, "script").is_empty() && elements(&page, "img").is_empty());
    let said: String = elements(&page, "dd").into_iter().map(text_of).collect();
    assert!(said.contains(HOSTILE[0]) && said.contains(HOSTILE[5]), "{said}");
    for page in &pages[2..] {
        assert!(!page.contains('\u{1b}') && !page.contains('\u{7}') && !page.contains('\u{0}'));
    }
    // The command is in a block of code, where text is text.
    let before_command = pages[2].split("```").next().unwrap();
    assert!(!before_command.contains("<script") && !before_command.contains("<img"));
}

#[test]
fn a_name_of_ten_thousand_characters() {
    let mut report = fixture::small();
    report.rows[1].strategy = "x".repeat(10_000);
    let table = &all_pages(&report)[4];
    let rows = table.lines().filter(|line| line.contains('…'));
    assert!(rows.clone().count() > 0 && rows.clone().all(|line| line.chars().count() <= 80));
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
            row.setting.threads = odd(&mut random) as usize;
            row.setting.rate = row.setting.rate.map(|_| odd_float(&mut random));
            (row.may_miss, row.may_invent) = (odd_float(&mut random), odd_float(&mut random));
            if random.next().is_multiple_of(4) {
                row.sort = Sort::Server;
            }
        }
        report.began_unix_seconds = odd(&mut random);
        all_pages(&report);
    }
}

fn odd(random: &mut Random) -> u64 {
    [0, 1, 2, 1_000, 1 << 40, u64::MAX - 1, u64::MAX][(random.next() % 7) as usize]
}

fn odd_float(random: &mut Random) -> f64 {
    [0.0, 1e-300, 0.5, 1.0, 1e300, f64::INFINITY, f64::NAN, -1.0][(random.next() % 8) as usize]
}

fn any_run(random: &mut Random) -> Measurement {
    let quantile = |random: &mut Random| Quantile { of: odd_float(random), nanos: odd(random) };
    let latency = |random: &mut Random| Latency {
        reached: odd_float(random),
        quantiles: vec![quantile(random), quantile(random)],
    };
    Measurement {
        checks: odd(random),
        nanos: odd(random),
        cpu_nanos: odd(random),
        server_cpu_nanos: Some(odd(random)),
        start_nanos: odd(random),
        pause_nanos: odd(random),
        clock_nanos: odd(random),
        bytes: odd(random),
        beside_bytes: Some(odd(random)),
        held: odd(random),
        answers: Answers {
            fresh: odd(random),
            invented: odd(random),
            duplicates: odd(random),
            missed: odd(random),
            twice: odd(random),
        },
        latency: Some(latency(random)),
        ..Measurement::default()
    }
}
