//! The contents of the table, the page and the pictures, as parsers of their formats see them.

use crate::report::fixture::{self, row, set_nanos};
use hapax_bench::measure::{Report, Row, render};
use roxmltree::{Document, Node, ParsingOptions};

pub fn parsed(xml: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: 1_000_000, ..ParsingOptions::default() };
    Document::parse_with_options(xml, options).unwrap_or_else(|error| panic!("{error}: {xml}"))
}

pub fn elements<'a>(document: &'a Document, name: &'a str) -> Vec<Node<'a, 'a>> {
    document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", name))).collect()
}

pub fn text_of(node: Node) -> String {
    node.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect()
}

/// Returns the sentences of the page, which are those of the terminal, too.
fn said(report: &Report) -> String {
    let html = render::html(report);
    let said: Vec<String> = elements(&parsed(&html), "p").into_iter().map(text_of).collect();
    let table = render::table(report);
    said.iter().for_each(|line| assert!(table.lines().any(|other| other == line), "{line} in {table}"));
    said.join("\n")
}

#[test]
fn tables_have_all_rows_and_the_page_has_the_same_cells() {
    let report = fixture::report(3);
    let (table, html) = (render::table(&report), render::html(&report));
    let page = parsed(&html);
    assert_eq!(
        elements(&page, "th").iter().filter(|th| th.attribute("scope") == Some("row")).count(),
        report.rows.len()
    );
    for row in &report.rows {
        let name = match row.setting.batch {
            1 => row.strategy.clone(),
            _ => format!("{}, batches of 1,024", row.strategy),
        };
        assert!(table.lines().any(|line| line.starts_with(&name)), "{name} is missing");
        assert!(elements(&page, "th").into_iter().map(text_of).any(|text| text == name), "{name} is missing");
    }
    for row in elements(&page, "tbody").iter().flat_map(|body| body.children().filter(Node::is_element)) {
        let cells: Vec<String> = row.children().map(text_of).filter(|text| !text.is_empty()).collect();
        let words: Vec<&str> = cells.iter().flat_map(|cell| cell.split_whitespace()).collect();
        assert!(table.lines().any(|line| line.split_whitespace().eq(words.iter().copied())), "no line of {words:?}");
    }
    assert!(table.contains(&report.command) && html.contains("rusqlite"), "{table}");
}

/// Checks that the median of a known row is where it belongs.
#[test]
fn figures_are_the_medians_of_the_runs() {
    let mut report = fixture::small();
    set_nanos(&mut report, "DashMap", &[300, 100, 200]);
    row(&mut report, "DashMap").runs.iter_mut().for_each(|run| (run.held, run.bytes) = (1_000_000, 77_000_000));
    for page in [render::table(&report), render::html(&report)] {
        assert!(page.contains("200 (100–300)") && page.contains("77"), "{page}");
    }
    // 200 ns an id are five million a second.
    assert!(render::pictures(&report)[0].svg().contains(">5 M/s<"));
}

/// Checks that memory that says nothing about an id is in no table: the difference is too small,
/// counting latencies is in it, few ids are held.
#[test]
fn memory_that_cannot_be_told_is_left_out() {
    type Change = fn(&mut Row);
    let changes: [(&str, Change, bool); 5] = [
        ("enough", |row| row.runs.iter_mut().for_each(|run| run.bytes = 256 << 10), true),
        ("too little", |row| row.runs.iter_mut().for_each(|run| run.bytes = (256 << 10) - 1), false),
        ("paced", |row| row.setting.rate = Some(1e6), false),
        ("half", |row| row.runs.iter_mut().for_each(|run| run.held = 500_000), true),
        ("less than half", |row| row.runs.iter_mut().for_each(|run| run.held = 499_999), false),
    ];
    for (what, change, told) in changes {
        let mut report = fixture::small();
        report.rows.retain(|row| row.strategy == "DashMap");
        change(&mut report.rows[0]);
        let has_column = render::table(&report).lines().any(|line| line.contains(" B/id ") && !line.contains(':'));
        assert_eq!(has_column, told, "{what}: {}", render::table(&report));
        assert_eq!(said(&report).contains("bytes an id"), told && what != "paced", "{what}");
    }
}

/// Checks that the little memory of a client is part of the sum with its server.
#[test]
fn little_memory_beside_much_is_part_of_the_sum() {
    let mut report = fixture::report(1);
    for row in report.rows.iter_mut().filter(|row| row.strategy == "hapax over Redis") {
        row.runs.iter_mut().for_each(|run| (run.bytes, run.beside_bytes) = (4_096, Some(50 * run.held)));
    }
    let text = said(&report);
    let server = text.lines().find(|line| line.contains("if several processes share")).unwrap();
    assert!(server.starts_with("Take hapax over Redis, batches of 1,024") && server.contains(", 50 bytes"), "{server}");
}

#[test]
fn advice_names_the_fastest_that_is_right() {
    let mut report = fixture::report(2);
    let text = said(&report);
    for part in [
        "Take hapax window, batches of 1,024 if one process checks",
        "Take hapax window+journal, batches of 1,024 if ids have to survive",
        "Take hapax over Redis, batches of 1,024 if several",
        "× as fast as Mutex<HashMap>, batches of 1,024, the fastest that isn't hapax;",
    ] {
        let part = part.trim_end_matches(';');
        assert!(text.contains(part), "{text} has no {part}");
    }
    // One duplicate in one setting was missed, and none may be.
    report.rows.iter_mut().find(|row| row.strategy == "hapax window").unwrap().runs[0].answers.missed = 1;
    let text = said(&report);
    assert!(text.contains("More wrong answers than promised: hapax window."), "{text}");
    assert!(text.contains("Take Mutex<HashMap>, batches of 1,024 if one process checks"), "{text}");
    assert!(render::table(&report).contains("5.00e-7") || render::table(&report).contains(" !"), "{text}");
}

/// Checks that a strategy is not said to miss what comes of a clock that the harness has set.
#[test]
fn who_has_a_clock_of_its_own_misses_nothing_and_says_what_it_held() {
    let mut report = fixture::report(6);
    report.rows.iter_mut().for_each(|row| row.runs.iter_mut().for_each(|run| run.answers.missed = 7));
    report.rows.retain(|row| row.strategy == "moka");
    assert!(report.rows.iter().all(|row| row.broken_promises().len() == 1));
    for row in &mut report.rows {
        row.may_miss = 1.0;
        row.runs.iter_mut().for_each(|run| run.held -= 1_000);
    }
    assert!(report.rows.iter().all(|row| row.broken_promises().is_empty()));
    for page in [render::table(&report), render::html(&report)] {
        assert!(page.contains("n/a: its own clock") && page.contains("99,000"), "{page}");
        assert!(!page.contains("7.00e") && !page.contains("promised"), "{page}");
    }
}

#[test]
fn work_between_checks_is_told_beside_what_a_check_adds() {
    let mut report = fixture::small();
    report.rows.iter_mut().for_each(|row| row.setting.work = 500);
    for row in &mut report.rows {
        row.runs.iter_mut().for_each(|run| run.work_nanos = 313 * run.checks);
    }
    for page in [render::table(&report), render::html(&report)] {
        assert!(page.contains("500 bytes decoded between checks") && page.contains("313"), "{page}");
        // What takes longest in all is no advice, and the messages are no strategy's memory.
        assert!(!page.contains("Take ") && !page.contains("18.4"), "{page}");
    }
}

#[test]
fn hapax_loses_where_it_loses() {
    let mut report = fixture::small();
    set_nanos(&mut report, "DashMap", &[100, 101, 102]);
    set_nanos(&mut report, "hapax window", &[200, 201, 202]);
    let text = said(&report);
    assert!(text.contains("slower than the fastest rival in 1 of 1 comparison; worst: hapax window, 0.5"), "{text}");
    set_nanos(&mut report, "hapax window", &[50, 51, 52]);
    assert!(said(&report).contains("slower than the fastest rival in none of 1 comparison."), "{}", said(&report));
    // Some of its runs were slower, some faster.
    set_nanos(&mut report, "hapax window", &[50, 150, 150]);
    let text = said(&report);
    assert!(text.contains("in none of 1 comparison") && render::table(&report).contains("0.673~"), "{text}");
}

#[test]
fn of_too_few_runs_it_says_both_counts_and_that_either_may_be_chance() {
    for (nanos, counts) in [(50, "faster in 1, and slower in 0"), (200, "faster in 0, and slower in 1")] {
        let mut report = fixture::small();
        set_nanos(&mut report, "hapax window", &[nanos; 2]);
        set_nanos(&mut report, "DashMap", &[100; 2]);
        let text = said(&report);
        assert!(text.contains(&format!("hapax is as fast or {counts}: either may be chance")), "{text}");
        assert!(!text.contains("hapax is slower"), "{text}");
    }
}

/// Checks that it is well-formed XML, requests nothing, and that its pictures have words and
/// figures.
#[test]
fn the_page_is_well_formed_and_self_contained() {
    let html = render::html(&fixture::report(4));
    let page = parsed(&html);
    for node in page.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object", "embed", "image", "use"].contains(&name), "<{name}>");
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on"), "{}", attribute.name());
            let refers = ["src", "href", "srcset", "action", "data"].contains(&attribute.name());
            assert!(!refers, "{}={}", attribute.name(), attribute.value());
        }
    }
    assert!(!html.contains("url(") && !html.contains("@import"));
    assert_eq!(elements(&page, "figure").len(), 2);
}

/// Checks that everything drawn stays within the picture, and each row has its figures as text.
#[test]
fn pictures_stay_within_their_frame() {
    let pictures = render::pictures(&fixture::report(5));
    assert_eq!(pictures.iter().map(|picture| picture.name).collect::<Vec<_>>(), ["throughput", "latency"]);
    for svg in pictures.iter().map(render::Picture::svg) {
        let picture = parsed(&svg);
        let root = picture.root_element();
        let number = |node: Node, name: &str| node.attribute(name).map_or(0.0, |value| value.parse::<f64>().unwrap());
        let (width, height) = (number(root, "width"), number(root, "height"));
        for node in root.descendants().filter(Node::is_element) {
            assert!(["x", "x1", "x2", "cx"].iter().all(|at| (0.0..=width).contains(&number(node, at))), "{node:?}");
            assert!(["y", "y1", "y2", "cy"].iter().all(|at| (0.0..=height).contains(&number(node, at))), "{node:?}");
        }
        let (heads, rows): (Vec<Node>, Vec<Node>) = root
            .children()
            .filter(|node| node.tag_name().name() == "g")
            .partition(|node| node.attribute("class").is_some_and(|class| class.starts_with("head")));
        // It stands alone: what is measured, in which setting, and what each mark is.
        let head: Vec<String> =
            heads[0].children().filter(|node| node.tag_name().name() == "text").map(text_of).collect();
        assert!(
            head.len() > 3 && head[1].contains("live ids") && head[2..].iter().all(|words| !words.is_empty()),
            "{head:?}"
        );
        assert!(rows.len() >= 6, "{} rows", rows.len());
        for row in rows {
            let marks = row.children().filter(|node| node.tag_name().name() == "circle").count();
            assert!(marks > 0 && text_of(row).chars().any(|c| c.is_ascii_digit()), "{row:?}");
        }
        assert!(svg.contains("prefers-color-scheme: dark") && svg.contains("<title>"));
    }
}

/// Checks that text, on both grounds, is four and a half times as light or as dark as its
/// background.
#[test]
fn colours_have_contrast() {
    let html = render::html(&fixture::small());
    let part = |begin: &str, end: &str| html.split(begin).nth(1).unwrap().split(end).next().unwrap().to_string();
    let colour = |of: &str, name: &str| of.split(name).nth(1).unwrap()[..7].to_string();
    let schemes = [
        (part(":root {", "}"), part(".marks text {", "@media")),
        (part("dark) { :root {", "}"), part("dark) {\n.marks text {", "</style>")),
    ];
    for (page, marks) in schemes {
        let ground = colour(&page, "background: ");
        let texts = [".name { fill: ", ".ours { color: ", ".other { color: "].map(|name| colour(&marks, name));
        for text in texts.into_iter().chain([colour(&page, "; color: "), colour(&marks, " fill: ")]) {
            assert!(contrast(&text, &ground) >= 4.5, "{text} on {ground}: {}", contrast(&text, &ground));
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
