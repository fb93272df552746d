//! Runs `hapax plan` on real traces: the published answers, and those of `hapax filter`.

use crate::filter::{filter, text};
use hapax::{Int, Timestamp};
use hapax_plan::Profile;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::directory::Directory;
use testkit::traces::{self, PUBLISHED};

/// Returns the trace that is in the repository, and its times and ids.
fn blocks() -> (PathBuf, Vec<(u64, String)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/blocks.tsv.gz");
    let unzipped = BufReader::new(flate2::read::GzDecoder::new(File::open(&path).unwrap()));
    let rows = traces::rows(unzipped.lines().map(Result::unwrap), 1);
    (path, rows)
}

/// Returns the output of `hapax plan` as JSON.
fn planned(options: &[&str], file: &Path) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(["plan", "--format", "json"]).args(options).arg("--from").arg(file);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn filtered(options: &[&str], file: &Path) -> serde_json::Value {
    let output = filter(options).args(["--stats", "--format=json"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stderr).unwrap()
}

#[test]
fn windows_catch_what_is_published_and_what_the_filter_drops() {
    // (Time that moves on with each record costs most where nothing is optimized.)
    for (file, ms_a_unit, answers) in PUBLISHED.into_iter().skip(testkit::long(2, 0)) {
        let Some(path) = traces::data(file) else { continue };
        let format = if ms_a_unit == 1 { "ms" } else { "s" };
        for &(seconds, fresh, _) in &answers[..testkit::long(1, answers.len())] {
            let window = format!("{seconds}s");
            let lines = ["--header", "--field", "2", "--time-field", "1", "--time-format", format, "--window", &window];
            let plan = planned(&lines, &path);
            let seen = &plan["seen"];
            assert_eq!(seen["window"]["caught"], seen["records"].as_u64().unwrap() - fresh, "{file}, {seconds} s");
            let stats = filtered(&lines, &path);
            assert_eq!(seen["window"]["caught_by_engine"], stats["duplicates"], "{file}, {seconds} s");
            assert_eq!(plan["plan"]["window"]["seconds"], seconds as f64);
        }
    }
}

/// Checks that a window is chosen for the repeats at hand, also if two others are weeks apart.
#[test]
fn two_repeats_far_away_do_not_make_a_window_of_weeks() {
    let Some(path) = traces::data("helium_lorawan/trace_b.tsv.zst") else { return };
    let mut rows = traces::trace(&path, 1);
    let last = rows[rows.len() - 1].0;
    for hours in [1_100, 1_176] {
        let (_, id) = rows.iter().find(|(ms, _)| *ms >= last - hours * 3_600_000).unwrap().clone();
        rows.push((last, id));
    }
    let directory = Directory::new("far");
    let file = directory.path().join("far.tsv");
    std::fs::write(&file, rows.iter().map(|(ms, id)| format!("{ms}\t{id}\n")).collect::<String>()).unwrap();
    let plan = planned(&["--field", "2", "--time-field", "1", "--time-format", "ms"], &file);
    let seen = &plan["seen"]["window"];
    assert_eq!((&seen["is_knee"], &seen["caught"], &seen["uncaught"]), (&true.into(), &242.into(), &2.into()));
    let minutes = seen["seconds"].as_f64().unwrap() / 60.0;
    assert!((20.0..=30.0).contains(&minutes), "{minutes} minutes");
    assert!(seen["all_seconds"].as_f64().unwrap() >= 1_176.0 * 3_600.0, "{seen}");
    assert!(plan["plan"]["window"]["seconds"] == seen["seconds"]);
    assert_eq!(seen["cautions"].as_array().unwrap().len(), 0, "{seen}");
}

#[test]
fn a_trace_that_is_in_the_repository() {
    let (path, rows) = blocks();
    let lines = ["--header", "--column", "id", "--time-column", "ts_ms", "--time-format", "ms"];
    let plan = planned(&[&lines[..], &["--catch", "99.9%"]].concat(), &path);
    let ids: std::collections::HashSet<_> = rows.iter().map(|(_, id)| id).collect();
    let seen = &plan["seen"];
    assert_eq!((&seen["records"], &seen["ids"]), (&rows.len().into(), &ids.len().into()));
    // The window that it plans for catches as many as were asked for, and the shortest one is the
    // shortest.
    let seconds = plan["plan"]["window"]["seconds"].as_f64().unwrap();
    let repeats = seen["repeats"].as_u64().unwrap();
    let caught = |ms: u64| rows.len() as u64 - traces::exact_fresh(&rows, ms, false);
    assert!(caught((seconds * 1e3) as u64) as f64 >= 0.999 * repeats as f64);
    for quantile in seen["quantiles"].as_array().unwrap() {
        let (share, window) = (quantile["share"].as_f64().unwrap(), quantile["window_seconds"].as_f64().unwrap());
        // Times are whole milliseconds, so one more than the distance is needed, and the distance
        // itself is not enough.
        let distance_ms = (window * 1e3).floor() as u64;
        assert!(caught(distance_ms + 1) as f64 >= share * repeats as f64 - 1e-6, "{quantile}");
        assert!((caught(distance_ms) as f64) < share * repeats as f64, "{quantile}");
    }
    for point in seen["curve"].as_array().unwrap() {
        let nanos = (point["window_seconds"].as_f64().unwrap() * 1e9).round() as u64;
        let expected = caught(nanos.div_ceil(1_000_000)) as f64 / repeats as f64;
        assert!((point["share"].as_f64().unwrap() - expected).abs() < 1e-9, "{point}");
    }
    let options = plan["plan"]["filter"].as_str().unwrap();
    let stats = filtered(&options.split(' ').collect::<Vec<_>>(), &path);
    assert_eq!((&stats["duplicates"], &stats["forgotten_early"]), (&seen["window"]["caught_by_engine"], &0.into()));
}

/// Runs the command that `hapax plan` prints for a file on this file, in a directory. Returns the
/// plan, and the command's report.
#[cfg(unix)]
fn printed_command(options: &[&str], file: &Path, directory: &Path) -> (serde_json::Value, serde_json::Value) {
    let plan = planned(options, file);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    let output = command.arg("plan").args(options).arg("--from").arg(file).stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stdout);
    let printed = said.lines().find_map(|line| line.strip_prefix("hapax filter ")).unwrap();
    assert_eq!(plan["plan"]["filter"], printed);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!(r#""$0" filter {printed} --stats --format json "$1""#), env!("CARGO_BIN_EXE_hapax")]);
    let output = shell.arg(file).current_dir(directory).stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{printed}: {said}");
    let stats: serde_json::Value = serde_json::from_str(&said).unwrap();
    let [said, taken] = [&plan["plan"]["filter_bytes"], &stats["memory_bytes"]].map(|bytes| bytes.as_f64().unwrap());
    assert!((said / taken - 1.0).abs() < 0.02, "{said} bytes are said, {taken} taken");
    (plan, stats)
}

#[cfg(unix)]
#[test]
fn the_printed_command_finds_the_duplicates() {
    let made = Directory::new("printed");
    let directory = made.path().to_owned();
    let file = directory.join("log");
    // Each id comes three times, the last time too late; and there is a line that is no record.
    let line = |i: u64| format!("{}.5|it's {}\n", 1_000 + i, i / 600 * 200 + i % 200);
    std::fs::write(&file, (0..6_000).map(line).collect::<String>() + "oops\n").unwrap();
    let lines = ["--regex", "[|](it's .*)", "--time-regex", "^[0-9.]+", "--time-format", "s", "--missing", "drop"];
    let demand = ["--window", "250s", "--growth", "1", "--journal"];
    let (plan, stats) = printed_command(&[&lines[..], &demand].concat(), &file, &directory);
    assert_eq!((&stats["duplicates"], &plan["seen"]["window"]["caught_by_engine"]), (&2_000.into(), &2_000.into()));
    assert_eq!((&stats["missing"], &stats["forgotten_early"]), (&1.into(), &0.into()));
    assert!(directory.join("journal").is_dir());
    if let Some(trace) = traces::data("bitcoin_blocks/trace.tsv.zst") {
        let lines = ["--column", "id", "--time-column", "ts_ms", "--time-format", "ms", "--catch", "99.9%"];
        let (plan, stats) = printed_command(&lines, &trace, &directory);
        assert_eq!(stats["duplicates"], plan["seen"]["window"]["caught_by_engine"]);
        assert_eq!(stats["duplicates"], 39_201);
    }
}

#[test]
fn block_numbers_without_time() {
    const AFTER_EACH_100_000: [u64; 9] = [41_526, 70_783, 90_093, 108_984, 121_783, 134_702, 149_248, 161_198, 183_544];
    let Some(path) = traces::data("arc_oltp/OLTP.lis.zst") else { return };
    let mut profile = Profile::new(1_000_000).unwrap();
    let mut running = Vec::new();
    for line in traces::lines(&path) {
        let numbers: Vec<u64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
        for id in numbers[0]..numbers[0] + numbers[1] {
            profile.see(Int::from(id), None).unwrap();
            if profile.records().is_multiple_of(100_000) {
                running.push(profile.distinct());
            }
        }
    }
    assert_eq!(running, AFTER_EACH_100_000);
    assert_eq!((profile.records(), profile.distinct()), (914_145, 186_880));
    let within = profile.records_for(0.99).unwrap();
    assert!(profile.caught_within(within) as f64 >= 0.99 * profile.repeats() as f64);
    assert_eq!(profile.caught_within(914_145), profile.repeats());
}

/// Checks that an engine that is built as planned, and gets the same ids again, forgets nothing
/// early and never grows.
#[test]
fn an_engine_as_planned_for_a_trace_suffices_for_it() {
    let (_, blocks) = blocks();
    let mut profile = Profile::new(10_000).unwrap();
    // The trace is sped up, so that the window has something to hold: ten thousand records within
    // ten windows.
    let rows: Vec<(u64, String)> = (0..10)
        .flat_map(|copy| {
            let first = blocks[0].0;
            let end = (blocks[blocks.len() - 1].0 - first) / 1_000 + 1;
            blocks
                .iter()
                .map(move |(ms, id)| ((ms - first) / 1_000 + copy * end, format!("{id}{copy}")))
                .collect::<Vec<_>>()
        })
        .take(10_000)
        .collect();
    for (ms, id) in &rows {
        profile.see(id, Some(Timestamp::from_millis(*ms))).unwrap();
    }
    let window = profile.span().unwrap() / 10;
    let plan = profile.demand(window).unwrap().plan().unwrap();
    let dedup = plan.builder().seed(3).build().unwrap();
    let check = |(ms, id): &(u64, String)| dedup.check_at(id, Timestamp::from_millis(*ms)).is_duplicate();
    let duplicates = rows.iter().filter(|row| check(row)).count() as u64;
    let stats = dedup.stats();
    assert_eq!(duplicates, profile.caught_by_engine(window).unwrap());
    assert_eq!((stats.window.evicted_live, stats.window.tables), (0, 1));
    let busiest = profile.accepted_at_most(window, window);
    assert!(plan.window.capacity as u64 >= busiest && plan.window.capacity as f64 <= 1.01 * busiest as f64 + 1.0);
    assert!(window > Duration::ZERO);
}
