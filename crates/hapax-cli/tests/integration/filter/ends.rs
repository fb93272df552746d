//! The ways in which the command ends.

use crate::filter::{filter, run};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use testkit::directory::Directory;

#[test]
fn a_closed_pipe_is_a_quiet_end_even_while_input_goes_on() {
    let mut child = filter(&["--stats"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(b"first\n").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "first\n", "lines are printed as they come");
    drop(stdout);
    // The end is noticed with the next line; from then on nobody reads.
    let unread = (0_u64..).find(|i| stdin.write_all(format!("{i}\n").as_bytes()).is_err());
    assert!(unread.is_some());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""));
}

#[test]
fn there_may_be_any_number_of_files() {
    let folder = Directory::new("many");
    let names: Vec<_> = (0..50).map(|i| folder.path().join(i.to_string())).collect();
    names.iter().enumerate().for_each(|(i, name)| std::fs::write(name, format!("{}\n", i % 30)).unwrap());
    let output = filter(&[]).args(&names).output().unwrap();
    let expected: String = (0..30).map(|i| format!("{i}\n")).collect();
    assert!(output.status.success() && output.stdout == expected.as_bytes());
}

#[test]
#[cfg(unix)]
fn a_named_pipe_is_read_to_its_end() {
    let folder = Directory::new("pipe");
    let path = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut writer = Command::new("sh").args(["-c", "seq 1 100000 > \"$0\""]).arg(&path).spawn().unwrap();
    let output = filter(&[path.to_str().unwrap()]).output().unwrap();
    assert!(writer.wait().unwrap().success() && output.status.success());
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 100_000);
}

#[test]
fn ids_that_are_forgotten_early_are_counted_and_the_end_is_another_one() {
    let input: String = (0..100_000).map(|i| format!("{i}\n")).collect();
    let output = run(filter(&["--max-memory", "64K", "--stats", "--format=json"]), input.as_bytes());
    assert_eq!(output.stdout, input.as_bytes());
    let errors = String::from_utf8(output.stderr).unwrap();
    let (stats, message) = errors.split_once('\n').unwrap();
    let stats: serde_json::Value = serde_json::from_str(stats).unwrap();
    let forgotten = stats["forgotten_early"].as_u64().unwrap();
    // The least table that there is has room for some thousands.
    assert!((80_000..100_000).contains(&forgotten), "{stats}");
    assert!(message.starts_with(&format!("hapax: {forgotten} ids")) && message.contains("--max-memory"), "{message}");
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn a_stream_of_unknown_size_needs_no_capacity() {
    let ids: String = (0..1_500_000).map(|i| format!("{i}\n")).collect();
    let output = run(filter(&["--stats", "--format=json"]), ids.repeat(2).as_bytes());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == ids.as_bytes(), "{errors}");
    let stats: serde_json::Value = serde_json::from_str(&errors).unwrap();
    assert_eq!((&stats["tables"], &stats["forgotten_early"]), (&2.into(), &0.into()), "{errors}");
}

#[test]
fn completions_and_manual_pages_are_generated() {
    let hapax = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_hapax")).args(words).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(hapax(&["completions", shell]).contains("refresh-on-duplicate"), "{shell}");
    }
    assert!(hapax(&["man"]).contains("hapax\\-filter"));
    let page = hapax(&["man", "filter"]);
    assert!(page.contains(".TH") && page.contains("refresh\\-on\\-duplicate"));
    assert!(page.contains("Exit codes") && hapax(&["filter", "--help"]).contains("Exit codes"));
}

#[test]
fn a_run_at_its_budget_can_be_repeated() {
    let input: String = (0..100_000_u64).map(|i| format!("{}\n", i * i % 99_991)).collect();
    let kept = |seed: &str| {
        let output = run(filter(&["--max-memory", "64K", "--seed", seed]), input.as_bytes());
        assert_eq!(output.status.code(), Some(4));
        (output.stdout, output.stderr)
    };
    let [first, other] = ["17", "18"].map(kept);
    assert!((0..3).all(|_| kept("17") == first), "the same lines, and the same number of ids forgotten");
    assert!(first != other, "and others with another seed");
}
