//! `hapax bench`, from outside.

use crate::filter::inputs::Directory;
use crate::filter::text;
use hapax_bench::measure::{Measurement, Report};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use testkit::processes::send;

/// A directory that the command and its processes use for everything.
struct Folder(Directory);

impl Folder {
    fn new(name: &str) -> Self {
        let directory = Directory::new(&format!("bench-{name}"));
        std::fs::create_dir(directory.0.join("tmp")).unwrap();
        Folder(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.0.join(name)
    }

    fn bench(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.arg("bench").args(options).arg("--save").arg(self.path("report.json"));
        command.env("TMPDIR", self.path("tmp")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns the measured report, and checks that nothing else is left.
    fn report(&self) -> Report {
        let left: Vec<_> = std::fs::read_dir(self.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        serde_json::from_slice(&std::fs::read(self.path("report.json")).unwrap()).unwrap()
    }
}

fn said(output: &Output) -> String {
    text(&output.stderr)
}

/// Returns all runs of a strategy.
fn runs<'a>(report: &'a Report, strategy: &str) -> Vec<&'a Measurement> {
    report.rows.iter().filter(|row| row.strategy == strategy).flat_map(|row| &row.runs).collect()
}

const TINY: [&str; 8] = ["--live", "2000", "--threads", "1,2", "--batch", "1,64", "--rate", "max,1000000"];

#[test]
fn a_tiny_comparison_has_all_rows_with_right_answers() {
    let folder = Folder::new("tiny");
    let only = ["--only", "hapax window,dashmap", "--without", "history", "--rounds", "2", "--seed", "17"];
    let output = folder.bench(&[&TINY[..], &only].concat()).arg("--html").arg(folder.path("report.html")).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let report = folder.report();
    assert!(!report.interrupted && report.seed == 17 && report.command.starts_with("hapax bench --live 2000"));
    assert!(std::fs::read_to_string(folder.path("report.html")).unwrap().contains("DashMap"));
    for strategy in ["hapax window", "DashMap"] {
        let runs = runs(&report, strategy);
        assert_eq!(runs.len(), 2 * 2 * 2 * 2, "settings, rounds");
        for run in runs {
            // Ids at a rate end when their time is over, wherever that is.
            let least = if run.latency.is_some() { 1 } else { 2_000 };
            assert!(run.checks >= least && run.answers.fresh >= least, "{run:?}");
            assert!(run.answers.duplicates >= least / 10, "{run:?}");
            assert_eq!((run.answers.missed, run.answers.invented), (0, 0), "{strategy}");
        }
    }
    for row in &report.rows {
        let paced = row.setting.rate.is_some();
        assert!(row.failures.is_empty() && row.runs.iter().all(|run| run.latency.is_some() == paced), "{row:?}");
    }
    let table = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(table.contains("Take ") && table.contains("DashMap") && table.contains("missed"), "{table}");
    let lines = said(&output);
    // Tests are not optimized, and figures from them are worth nothing.
    let warning = lines.lines().next().filter(|line| line.contains("build with --release"));
    assert_eq!(warning.is_some(), cfg!(debug_assertions), "{lines}");
    let lines = lines.trim_start_matches(warning.unwrap_or_default()).trim_start();
    assert!(
        lines.starts_with(&format!("{} rows, 2 rounds; --seed 17", report.rows.len())) && lines.lines().count() > 16,
        "{lines}"
    );
}

#[test]
fn memory_is_as_it_comes_or_all_on_huge_pages_and_ids_are_read_ahead() {
    let folder = Folder::new("pages");
    let options = ["--live", "2000", "--threads", "1", "--batch", "ahead", "--rate", "max", "--pages", "default,huge"];
    let only = ["--only", "hapax window,dashmap", "--without", "history,journal", "--rounds", "1"];
    let output = folder.bench(&[&options[..], &only].concat()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let rows = folder.report().rows;
    assert_eq!(rows.iter().map(|row| row.setting.huge_pages).collect::<Vec<_>>(), [false, true], "{rows:?}");
    for row in rows {
        // No rival reads ahead.
        assert!(row.strategy == "hapax window" && row.setting.ahead && row.failures.is_empty(), "{row:?}");
        let answers = row.runs[0].answers;
        assert!(answers.duplicates > 100 && (answers.missed, answers.invented) == (0, 0), "{row:?}");
    }
}

#[test]
fn a_case_that_fails_is_a_row_and_the_others_go_on() {
    let folder = Folder::new("fails");
    let options = ["--live", "2000,2_000_000_000_000", "--threads", "1", "--batch", "64", "--rate", "max"];
    let output = folder
        .bench(&[&options[..], &["--only", "dashmap", "--without", "purges", "--rounds", "1"]].concat())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let report = folder.report();
    let [right, failed] = &report.rows[..] else { panic!("{:?}", report.rows) };
    assert_eq!((right.runs.len(), right.failures.len(), failed.runs.len(), failed.failures.len()), (1, 0, 0, 1));
    assert!(failed.failures[0].contains("GiB"), "{:?}", failed.failures);
    let all_failed =
        folder.bench(&["--live", "2_000_000_000_000", "--rate", "max", "--only", "dashmap"]).output().unwrap();
    assert_eq!(all_failed.status.code(), Some(1), "{}", said(&all_failed));
}

#[test]
fn an_interrupt_keeps_what_is_finished() {
    let folder = Folder::new("interrupt");
    let mut child = folder.bench(&[&TINY[..], &["--only", "dashmap", "--rounds", "1000"]].concat()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("1 of ")), "a line for each case");
    assert!(send("INT", [child.id().to_string()]));
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.last().is_some_and(|line| line.contains("interrupted")), "{rest:?}");
    let report = folder.report();
    let runs = runs(&report, "DashMap").len();
    assert!(report.interrupted && (1..8_000).contains(&runs), "{runs}");
    assert!(report.rows.iter().all(|row| row.failures.is_empty()));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let folder = Folder::new("refused");
    for (options, reason) in [(&["--only", "nobody"][..], "--list"), (&["--pages", "small"], "default, huge")] {
        let output = folder.bench(options).output().unwrap();
        let said = said(&output);
        assert!(output.status.code() == Some(2) && said.contains(reason), "{options:?}: {said}");
    }
    assert!(!folder.path("report.json").exists());
    let nowhere = folder.path("nowhere/page.html");
    let output = folder.bench(&["--quick", "--html", nowhere.to_str().unwrap()]).output().unwrap();
    assert!(output.status.code() == Some(1) && said(&output).contains("nowhere"), "before it measures");
}

/// Returns the processes that have this text in their environment.
#[cfg(target_os = "linux")]
fn processes_with(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let environment = |process: &PathBuf| std::fs::read(process.join("environ")).unwrap_or_default();
    let has_it = |process: &PathBuf| self::text(&environment(process)).contains(text);
    let name = |process: PathBuf| std::fs::read_to_string(process.join("comm")).unwrap_or_default();
    processes.filter(has_it).map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
#[cfg(all(target_os = "linux", feature = "postgres", feature = "redis"))]
fn no_server_outlives_the_command_however_that_ends() {
    for (server, strategy) in
        [("redis-server", "Redis SET NX EX, pipelined"), ("postgres", "PostgreSQL INSERT, batched")]
    {
        for signal in ["INT", "KILL"] {
            let folder = Folder::new(&format!("killed-{server}{signal}"));
            let options = ["--only", strategy, "--live", "2000", "--threads", "1", "--batch", "64", "--rate", "max"];
            let mut child = folder.bench(&[&options[..], &["--rounds", "1000"]].concat()).spawn().unwrap();
            // Of the processes with this directory, one is the server.
            let own = folder.path("tmp").display().to_string();
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
            let first = lines.find(|line| line.starts_with("1 of ") || line.contains("nothing to measure"));
            if first.is_none_or(|line| line.contains("nothing to measure")) {
                testkit::skipped_without(server, server);
                continue;
            }
            super::until(server, || processes_with(&own).iter().any(|name| name.trim() == server));
            assert!(send(signal, [child.id().to_string()]));
            child.wait().unwrap();
            super::until(&format!("no process after {signal}"), || processes_with(&own).is_empty());
        }
    }
}

#[test]
fn strategies_are_listed() {
    let output = Folder::new("list").bench(&["--list"]).output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && list.contains("hapax window ") && list.contains("window, in memory"), "{list}");
    assert!(list.lines().all(|line| line.len() > 40), "{list}");
}
