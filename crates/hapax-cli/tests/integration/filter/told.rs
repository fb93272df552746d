//! Messages of the command when something is wrong, where `golden/told.trycmd` cannot show it.

use crate::filter::bytes::{gzip, zstd};
use crate::filter::inputs::Directory;
use crate::filter::{printed, text};
use std::process::{Command, Output, Stdio};

fn hapax(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(words).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn compressed_files_are_divided_as_their_names_say() {
    let directory = Directory::new("named");
    let csv: &[u8] = b"id,n\na,1\na,2\n";
    let gz = directory.file("a.csv.gz", &gzip(csv));
    let zst = directory.file("a.csv.zst", &zstd(csv));
    for file in [&gz, &zst] {
        assert_eq!(text(&printed(&["--column", "id", file], b"")), "id,n\na,1\n", "{file}");
    }
    // Whole lines are not divided.
    let plain = directory.file("b.csv", csv);
    assert_eq!(printed(&[&plain], b""), csv);
    // And the command that a plan prints needs no name to go by.
    let output = hapax(&["plan", "--rate", "10", "--window", "1m", "--column", "id", "--from", &plain]);
    let said = text(&output.stdout);
    assert!(said.contains("hapax filter --column id --delimiter , --window 1m "), "{said}");
}

#[test]
fn a_journal_is_inspected_in_dates() {
    let state = crate::filter::state::State::new("dates");
    let options = ["--field", "1", "--delimiter", " ", "--time-field", "2", "--time-format", "s", "--window", "100s"];
    assert_eq!(state.lines(&options, "a 1686440593\nb 1686440594.5\n"), "a 1686440593\nb 1686440594.5\n");
    let output = hapax(&["journal", "inspect", "--runs", state.0.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert!(output.status.success() && !said.contains(" ns"), "{said}");
    assert!(said.contains("  times 2023-06-10T23:43:13Z to 2023-06-10T23:43:14.5Z\n"), "{said}");
    let run = said.lines().find(|line| line.ends_with("1 accepted")).unwrap_or_default();
    assert!(run.starts_with("  2023-06-10T23:43:13Z "), "{said}");
    let output = hapax(&["journal", "inspect", "--runs", "--format", "json", state.0.to_str().unwrap()]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let accepted: u64 = said["files"].as_array().unwrap().iter().filter_map(|file| file["accepted"].as_u64()).sum();
    assert_eq!((accepted, &said["ids_lost"], &said["damaged"]), (2, &0.into(), &serde_json::json!([])), "{said}");
    assert!(said.to_string().contains(r#"{"at_nanos":1686440593000000000,"ids":1,"what":"accepted"}"#), "{said}");
}

#[test]
fn what_is_no_journal_is_said_to_be_none() {
    let directory = Directory::new("none");
    directory.file("orders.csv", b"id\n");
    let path = directory.0.to_str().unwrap();
    let output = hapax(&["journal", "inspect", path]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""), "{said}");
    assert!(said.starts_with(&format!("hapax: {path}: it is no journal")), "{said}");
}
