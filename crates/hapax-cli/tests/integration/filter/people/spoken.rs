//! The way the command speaks: help, exit codes, colours, progress.

use crate::filter::inputs::Directory;
use crate::filter::{filter, run, said};
use std::process::Command;

/// Returns text without what formats it: one space between words.
fn words(text: &str) -> String {
    text.replace("\\-", "-").replace(['`', '|'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_exit_codes_are_the_same_in_help_and_manual() {
    let hapax = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_hapax")).args(arguments).output().unwrap();
        words(&String::from_utf8(output.stdout).unwrap())
    };
    let (help, manual) = (hapax(&["filter", "--help"]), hapax(&["man", "filter"]));
    let codes = help.split("Exit codes: ").nth(1).unwrap().split(" Examples:").next().unwrap();
    for code in
        ["0 done; also", "1 a file", "2 the options", "3 a line", "4 done, but", "5 done, but", "130, 143 asked"]
    {
        assert!(codes.contains(code) && manual.contains(code), "{code}: {codes}, {manual}");
    }
    // Its synopsis is not all options, none with its value.
    assert!(manual.contains("[OPTIONS] [FILES]...") && manual.contains("<DURATION>"), "{manual}");
}

#[test]
fn what_is_said_to_a_pipe_has_no_colours() {
    for output in
        [run(filter(&["--help"]), b""), run(filter(&["--winow", "1h"]), b""), run(filter(&["--stats"]), b"a\n")]
    {
        assert!(![output.stdout, output.stderr].concat().contains(&0x1b));
    }
    let (_, _, table) = said(&run(filter(&["--stats"]), b"a\nb\na\n"));
    assert!(
        words(&table).contains("lines 3 headers 0") && table.contains("duplicates                1 (33.33 %)"),
        "{table}"
    );
}

/// A terminal, and what a command has shown on it.
#[cfg(target_os = "linux")]
fn on_terminal(script: &str, no_color: bool) -> String {
    let directory = Directory::new("terminal");
    let lines: String = (0..400_000).map(|i| format!("{i}\n")).collect();
    directory.file("in", lines.as_bytes());
    // It has a terminal for the command, and copies what is shown there.
    let mut command = Command::new("script");
    command.args(["-qec", script, "/dev/null"]).current_dir(&directory.0).stdin(std::process::Stdio::null());
    command.env("HAPAX", env!("CARGO_BIN_EXE_hapax")).env("TERM", "xterm").env_remove("NO_COLOR");
    if no_color {
        command.env("NO_COLOR", "1");
    }
    said(&command.output().unwrap()).1
}

#[test]
#[cfg(target_os = "linux")]
fn colours_and_progress_are_for_terminals() {
    if let Err(why) = Command::new("script").arg("--version").output() {
        return testkit::skipped(format_args!("it takes `script`, of util-linux: {why}"));
    }
    let (colour, progress) = ("\u{1b}[", "M lines/s");
    for arguments in ["--help", "--winow 1h"] {
        let script = format!("\"$HAPAX\" filter {arguments}");
        assert!(on_terminal(&script, false).contains(colour), "{arguments}");
        assert!(!on_terminal(&script, true).contains(colour), "{arguments}");
    }
    for (script, is_shown) in [
        ("\"$HAPAX\" filter in > out", true),
        ("\"$HAPAX\" filter -o out in", true),
        ("\"$HAPAX\" filter in | tail -n 1 > out", true),
        ("\"$HAPAX\" filter --spill . in > out", true),
        ("\"$HAPAX\" filter --keep last in > out", true),
        ("\"$HAPAX\" filter --no-progress in > out", false),
        ("\"$HAPAX\" filter in > out 2> errors; cat errors", false),
        ("\"$HAPAX\" filter in", false),
    ] {
        assert_eq!(on_terminal(script, false).contains(progress), is_shown, "{script}");
    }
    assert!(!on_terminal("TERM=dumb \"$HAPAX\" filter in > out", false).contains(progress));
}
