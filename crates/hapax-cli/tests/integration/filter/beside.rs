//! `--duplicates-to`: the duplicates go to a file, the first sightings to the output.

use crate::filter::inputs::Directory;
use crate::filter::state::State;
use crate::filter::{filter, run, text};
use std::fs;

#[test]
fn each_line_is_in_one_of_the_two_in_order() {
    let directory = Directory::new("beside");
    let file = directory.file("duplicates", b"from an earlier run\n");
    let lines: Vec<String> = (0..200_000_u64).map(|i| format!("{} {i}", i * i % 7_919)).collect();
    let mut seen = std::collections::HashSet::new();
    let (new, again): (Vec<_>, Vec<_>) =
        lines.iter().cloned().partition(|line| seen.insert(line.split(' ').next().unwrap().to_string()));
    let options = ["--field", "1", "--delimiter", " ", "--duplicates-to", &file];
    let output = run(filter(&options), (lines.join("\n") + "\n").as_bytes());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(text(&output.stdout), new.join("\n") + "\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), again.join("\n") + "\n");
}

#[test]
fn both_have_the_header_once() {
    let directory = Directory::new("beside-header");
    let [one, two] = ["one.csv", "two.csv"].map(|name| directory.file(name, b"id,n\na,1\nb,2\na,3\n"));
    let duplicates = directory.file("duplicates", b"");
    let output = filter(&["--column", "id", "--duplicates-to", &duplicates, &one, &two]).output().unwrap();
    assert_eq!(text(&output.stdout), "id,n\na,1\nb,2\n", "{output:?}");
    assert_eq!(fs::read_to_string(&duplicates).unwrap(), "id,n\na,3\na,1\nb,2\na,3\n");
}

#[test]
fn a_run_with_a_state_goes_on_behind_what_is_there_and_glues_nothing() {
    let directory = Directory::new("beside-state");
    let state = State::new("beside-state");
    let file = directory.file("duplicates", b"");
    let input = directory.file("in", b"a\nb\na\n");
    let run = || {
        let output = state.filter(&["--duplicates-to", &file]).arg(&input).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (text(&output.stdout), fs::read_to_string(&file).unwrap())
    };
    assert_eq!(run(), ("a\nb\n".into(), "a\n".into()));
    // As if it had been killed in the midst of a line.
    fs::write(&file, "a\nhalf a l").unwrap();
    fs::write(&input, "a\nb\na\nc\nb\n").unwrap();
    assert_eq!(run(), ("c\n".into(), "a\nhalf a l\nb\n".into()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_names_the_file_and_the_lines_come_again() {
    let directory = Directory::new("beside-full");
    let state = State::new("beside-full");
    let input = directory.file("in", b"a\na\n");
    let output = state.filter(&["--duplicates-to", "/dev/full"]).arg(&input).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/dev/full: No space left"), "{output:?}");
    let file = directory.file("duplicates", b"");
    let output = state.filter(&["--duplicates-to", &file]).arg(&input).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "a\n", "it was not recorded");
}
