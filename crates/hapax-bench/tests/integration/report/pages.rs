//! The contents of the pages, as parsers of their formats see them.

use crate::report::fixture;
use hapax_bench::measure::{Report, Row, render};
use roxmltree::{Document, Node, ParsingOptions};

pub fn parsed(xml: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: 1_000_000, ..ParsingOptions::default() };
    Document::parse_with_options(xml, options).unwrap_or_else(|error| panic!("{error}: {}", &xml[..200]))
}

pub fn elements<'a>(document: &'a Document, name: &'a str) -> Vec<Node<'a, 'a>> {
    document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", name))).collect()
}

pub fn text_of(node: Node) -> String {
    node.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect()
}

#[test]
fn json_is_read_as_it_was_written() {
    let report = fixture::report(1);
    assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
    // The examples in the documentation read this file.
    let kept = std::fs::read_to_string("tests/integration/report/small.json").unwrap();
    let now = fixture::small();
    if Report::from_json(&kept).ok().as_ref() != Some(&now) {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("small.json");
        std::fs::write(&path, now.to_json().unwrap() + "\n").unwrap();
        panic!("tests/integration/report/small.json is not what the generator makes, which is {}", path.display());
    }
}

#[test]
fn a_newer_format_is_refused() {
    // The version is wrong, so the rest does not matter.
    let error = Report::from_json("{\"format\": 2, \"rows\": 7}").unwrap_err().to_string();
    assert!(error.contains("format 2") && error.contains("reads 1"), "{error}");
    assert!(Report::from_json("{\"format\": 0}").is_err());
    assert!(Report::from_json("{\"format\": 1}").unwrap_err().to_string().contains("missing field"));
}

#[test]
fn csv_has_a_line_a_run_and_all_figures() {
    let mut report = fixture::report(2);
    report.rows[0].failures.push("died,\n\"of\" memory".into());
    let text = render::csv(&report);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let runs: usize = report.rows.iter().map(|row| row.runs.len() + row.failures.len()).sum();
    assert_eq!(lines.len(), runs);
    let field = |line: &csv::StringRecord, name: &str| {
        let at = header.iter().position(|head| head == name).unwrap_or_else(|| panic!("no column {name}"));
        line[at].to_string()
    };
    let failed = lines.iter().find(|line| !field(line, "failure").is_empty()).unwrap();
    assert_eq!(field(failed, "failure"), "died,\n\"of\" memory");
    assert_eq!(field(failed, "nanos"), "");
    let mut measured = lines.iter().filter(|line| field(line, "failure").is_empty());
    for row in &report.rows {
        for run in &row.runs {
            let line = measured.next().unwrap();
            assert_eq!(field(line, "strategy"), row.strategy);
            assert_eq!(field(line, "checks"), run.checks.to_string());
            assert_eq!(field(line, "missed"), run.answers.missed.to_string());
            assert_eq!(field(line, "rate_ids_per_second").parse().ok(), row.setting.rate);
            assert_eq!(field(line, "budget_bytes").parse().ok(), row.setting.budget_bytes);
            let p99 = run.latency.as_ref().map(|latency| latency.quantiles[4].nanos);
            assert_eq!(field(line, "p99_nanos").parse().ok(), p99);
        }
    }
    assert!(text.contains("\r\n"));
}

#[test]
fn tables_fit_their_width_and_have_all_rows() {
    let report = fixture::report(3);
    for width in [80, 120] {
        let page = render::table_within(&report, width);
        for line in page.lines() {
            assert!(line.chars().count() <= width, "{} columns: {line}", line.chars().count());
        }
        for row in &report.rows {
            assert!(page.contains(&row.strategy), "{} is missing at {width}", row.strategy);
        }
        assert!(page.contains(&report.command[..40]) && page.contains("rusqlite: built without"), "{page}");
    }
    assert_eq!(render::table(&report), render::table_within(&report, 120));
}

/// Checks that the median of a known row is where it belongs, in all of them.
#[test]
fn figures_are_the_medians_of_the_runs() {
    let mut report = fixture::small();
    let row = report.rows.iter_mut().find(|row| row.strategy == "DashMap").unwrap();
    for (run, nanos) in row.runs.iter_mut().zip([300_u64, 100, 200]) {
        (run.checks, run.nanos, run.held, run.bytes) = (1_000_000, 1_000_000 * nanos, 1_000_000, 77_000_000);
    }
    let pages = [render::table(&report), render::markdown(&report), render::html(&report)];
    for page in pages {
        // 200 ns an id are five million a second.
        assert!(page.contains("5 M") && page.contains("3.33 M–10 M") && page.contains("77"), "{page}");
    }
}

/// Checks that memory that says nothing about an id is in no page: the difference is too small,
/// counting latencies is in it, few ids are held.
#[test]
fn memory_that_cannot_be_told_is_left_out() {
    type Change = fn(&mut Row);
    let changes: [(&str, Change, bool); 6] = [
        ("enough", |row| row.runs.iter_mut().for_each(|run| run.bytes = 256 << 10), true),
        ("too little", |row| row.runs.iter_mut().for_each(|run| run.bytes = (256 << 10) - 1), false),
        ("paced", |row| row.setting.rate = Some(1e6), false),
        ("half", |row| row.runs.iter_mut().for_each(|run| run.held = 500_000), true),
        ("less than half", |row| row.runs.iter_mut().for_each(|run| run.held = 499_999), false),
        // A strategy that has no room for more than a few is to be compared with others in the same
        // budget.
        (
            "in a budget",
            |row| {
                row.setting.budget_bytes = Some(1 << 20);
                row.runs.iter_mut().for_each(|run| run.held = 7);
            },
            true,
        ),
    ];
    for (what, change, told) in changes {
        let mut report = fixture::small();
        report.rows.retain(|row| row.strategy == "DashMap");
        change(&mut report.rows[0]);
        for page in [render::table(&report), render::markdown(&report)] {
            assert_eq!(page.contains("B/id"), told, "{what}: {page}");
            assert_eq!(page.contains("a live id"), told, "{what}: {page}");
        }
        let html = render::html(&report);
        assert_eq!(html.contains("of memory the least of all"), told, "{what}");
        let csv = render::csv(&report);
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let at = reader.headers().unwrap().iter().position(|head| head == "bytes").unwrap();
        let fields: Vec<String> = reader.records().map(|line| line.unwrap()[at].to_string()).collect();
        let has_bytes = !["too little", "paced"].contains(&what);
        assert!(fields.iter().all(|field| field.is_empty() != has_bytes), "{what}: {fields:?}");
    }
}

/// Checks the least memory: an untold figure may be smaller.
#[test]
fn the_least_memory_is_the_least_that_can_be_told() {
    let mut report = fixture::small();
    let said = |report: &Report| format!("{}{}", render::table(report), render::html(report)).replace('\n', " ");
    assert!(said(&report).contains("of memory the least of all takes hapax window"), "{}", said(&report));
    let rival = report.rows.iter_mut().find(|row| row.strategy == "DashMap").unwrap();
    rival.runs.iter_mut().for_each(|run| run.bytes = 4_096);
    let page = said(&report);
    assert!(
        !page.contains("the least of all") && page.contains("the least that can be told takes hapax window"),
        "{page}"
    );
}

/// Checks that the little memory of a client is part of the sum with its server.
#[test]
fn little_memory_beside_much_is_part_of_the_sum() {
    let mut report = fixture::report(1);
    for row in &mut report.rows {
        let bytes_an_id = match row.strategy.as_str() {
            "Redis SET NX EX" => 50,
            "Redis through hapax" => 100,
            _ => continue,
        };
        for run in &mut row.runs {
            (run.bytes, run.beside_bytes) = (4_096, Some(bytes_an_id * run.held));
        }
    }
    let page = render::table(&report).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("(50 bytes a live id against 100, strategy on a server)"), "{page}");
}

#[test]
fn hapax_loses_where_it_loses() {
    let mut report = fixture::small();
    let speed = |report: &mut Report, name: &str, nanos: u64| {
        let row = report.rows.iter_mut().find(|row| row.strategy == name).unwrap();
        row.runs.iter_mut().for_each(|run| run.nanos = run.checks * nanos);
    };
    speed(&mut report, "hapax window", 200);
    speed(&mut report, "DashMap", 100);
    let page = render::table(&report).replace('\n', " ").replace("  ", " ");
    assert!(page.contains("hapax window is 0.5 × as fast as DashMap"), "{page}");
    assert!(page.contains("hapax loses 1 of 1 comparison"), "{page}");
    speed(&mut report, "hapax window", 50);
    let page = render::table(&report).replace('\n', " ").replace("  ", " ");
    assert!(page.contains("hapax window is 2 × as fast as DashMap"), "{page}");
    assert!(page.contains("hapax loses none of 1 comparison"), "{page}");
}

#[test]
fn of_too_few_runs_it_says_both_counts_and_that_either_may_be_chance() {
    for nanos in [50, 200] {
        let mut report = fixture::small();
        for row in &mut report.rows {
            row.runs.truncate(2);
            let is_ours = row.strategy == "hapax window";
            row.runs.iter_mut().for_each(|run| run.nanos = run.checks * if is_ours { nanos } else { 100 });
        }
        let page = render::table(&report).split_whitespace().collect::<Vec<_>>().join(" ");
        let counts = if nanos == 50 { "faster in 1, and slower in 0" } else { "faster in 0, and slower in 1" };
        assert!(page.contains(&format!("hapax is as fast or {counts}: either may be chance")), "{page}");
        assert!(!page.contains("hapax loses none") && !page.contains("hapax loses 1"), "{page}");
    }
}

/// Checks that it is well-formed XML, requests nothing, and each chart has words and figures.
#[test]
fn the_page_is_well_formed_and_self_contained() {
    let report = fixture::report(4);
    let html = render::html(&report);
    let page = parsed(&html);
    for node in page.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object", "embed", "image", "use"].contains(&name), "<{name}>");
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on"), "{}", attribute.name());
            let refers = ["src", "href", "srcset", "action", "data"].contains(&attribute.name());
            assert!(!refers || attribute.value().starts_with('#'), "{}={}", attribute.name(), attribute.value());
        }
    }
    assert!(!html.contains("url(") && !html.contains("@import"));
    let drawn: Vec<Node> =
        elements(&page, "table").into_iter().filter(|table| table.attribute("class") == Some("drawn")).collect();
    assert!(drawn.len() >= 5, "{} drawn tables", drawn.len());
    for table in drawn {
        for row in table.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", "tr"))).skip(1)
        {
            // What is 0 has no mark.
            for marks in row.descendants().filter(|node| node.attribute("role") == Some("img")) {
                let said = marks.attribute("aria-label").unwrap();
                assert!(said.chars().any(|c| c.is_ascii_digit()), "a mark without words: {said}");
            }
            assert!(row.descendants().any(|node| node.attribute("data-head").is_some()), "no figures as text");
        }
    }
    let mut ids: Vec<&str> = page.descendants().filter_map(|node| node.attribute("id")).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "ids are unique");
    for link in elements(&page, "a") {
        let target = &link.attribute("href").unwrap()[1..];
        assert!(ids.contains(&target), "#{target} leads nowhere");
    }
}

/// Checks that everything drawn stays within the chart.
#[test]
fn pictures_stay_within_their_frame() {
    for (name, svg) in render::svg(&fixture::report(5)) {
        let picture = parsed(&svg);
        let number = |node: Node, name: &str| -> f64 {
            node.attribute(name).map_or(0.0, |value| value.trim_end_matches('%').parse().unwrap())
        };
        let root = picture.root_element();
        let (width, height) = (number(root, "width"), number(root, "height"));
        assert!(width > 300.0 && height > 50.0, "{name}: {width} × {height}");
        assert!(
            ["title", "desc"]
                .iter()
                .all(|name| { root.children().any(|node| node.tag_name().name() == *name && text_of(node).len() > 5) })
        );
        for node in root.descendants().filter(|node| node.is_element() && *node != root) {
            match node.tag_name().name() {
                "svg" => {
                    assert!(number(node, "x") + number(node, "width") <= width, "{name}: {node:?}");
                    assert!(number(node, "y") + number(node, "height") <= height, "{name}: {node:?}");
                }
                // The places in a row are percentages.
                "line" | "circle" => assert!(
                    ["x1", "x2", "cx", "y1", "y2"].iter().all(|at| (0.0..=100.0).contains(&number(node, at))),
                    "{name}: {node:?}"
                ),
                "text" => assert!(!text_of(node).is_empty() && number(node, "y") <= height, "{name}: {node:?}"),
                _ => {}
            }
        }
        assert!(svg.contains("prefers-color-scheme: dark"));
    }
}

/// Checks that text, on both grounds, is four and a half times as light or as dark as its
/// background; marks are three times.
#[test]
fn colours_have_contrast() {
    let html = render::html(&fixture::small());
    let (light, dark) = ("#ffffff", "#0d1117");
    let colours = |begin: &str, end: &str| html.split(begin).nth(1).unwrap().split(end).next().unwrap().to_string();
    let page_light = colours(":root {", "}");
    let page_dark = colours("@media (prefers-color-scheme: dark) { :root {", "}");
    for (part, ground) in [(page_light, light), (page_dark, dark)] {
        for name in ["--text: ", "--quiet: ", "--link: ", "--warn: "] {
            let colour = &part.split(name).nth(1).unwrap()[..7];
            assert!(contrast(colour, ground) >= 4.5, "{name}{colour} on {ground}: {}", contrast(colour, ground));
        }
    }
    let marks = html.split_once("\n.marks text {").unwrap().1;
    let (marks_light, rest) = marks.split_once("@media (prefers-color-scheme: dark) {").unwrap();
    let marks_dark = rest.split("</style>").next().unwrap();
    for (part, ground) in [(marks_light, light), (marks_dark, dark)] {
        for colour in [".name { fill: ", ".marks .ours { color: ", ".marks .other { color: "] {
            let colour = &part.split(colour).nth(1).unwrap()[..7];
            assert!(contrast(colour, ground) >= 4.5, "{colour} on {ground}: {}", contrast(colour, ground));
        }
    }
}

/// Returns the contrast after the Web Content Accessibility Guidelines 2.2.
fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |colour: &str| {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    };
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    a.max(b) / a.min(b)
}

#[test]
fn markdown_has_a_table_a_setting() {
    let report = fixture::report(6);
    let page = render::markdown(&report);
    let mut settings: Vec<String> = report
        .rows
        .iter()
        .map(|row| format!("{:?}", hapax_bench::measure::Setting { batch: 1, ..row.setting.clone() }))
        .collect();
    settings.sort();
    settings.dedup();
    let everything = page.split("## Everything that was measured").nth(1).unwrap();
    assert_eq!(everything.lines().filter(|line| line.starts_with("|---|")).count(), settings.len());
    // All rows of a table have as many cells as its head.
    for table in page.split("\n\n").filter(|part| part.starts_with("|  |")) {
        let cells = |line: &str| line.matches('|').count() - line.matches("\\|").count();
        let head = cells(table.lines().next().unwrap());
        assert!(table.lines().all(|line| cells(line) == head), "{table}");
    }
}
