//! `--state`: what is remembered from one run to the next.

use crate::{filter, run};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub struct State(pub PathBuf);

impl State {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hapax-state-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        State(path)
    }

    pub fn filter(&self, args: &[&str]) -> Command {
        let mut command = filter(args);
        command.arg("--state").arg(&self.0);
        command
    }

    pub fn lines(&self, args: &[&str], input: impl AsRef<[u8]>) -> String {
        let output = run(self.filter(args), input.as_ref());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_one_run_has_printed_the_next_one_does_not() {
    let state = State::new("runs");
    assert_eq!(state.lines(&[], "a\nb\na\n"), "a\nb\n");
    assert_eq!(state.lines(&[], "b\nc\n"), "c\n");
    assert_eq!(state.lines(&["--duplicates"], "a\nd\n"), "a\n");
    assert_eq!(state.lines(&[], "d\n"), "", "what was seen and not wanted was seen, too");
}

#[test]
fn with_event_times_windows_go_on() {
    let state = State::new("times");
    let args = ["--field", "1", "--delimiter", " ", "--time-field", "2", "--time-format", "s", "--window", "100s"];
    assert_eq!(state.lines(&args, "a 1000\nb 1050\n"), "a 1000\nb 1050\n");
    assert_eq!(state.lines(&args, "a 1099\nb 1099\na 1102\n"), "a 1102\n");
    assert_eq!(state.lines(&args, "b 1149\nb 1152\na 1201\n"), "b 1152\n");
}

#[test]
fn two_at_once_are_refused() {
    let state = State::new("lock");
    let mut first = state.filter(&[]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    first.stdin.as_mut().unwrap().write_all(b"a\n").unwrap();
    BufReader::new(first.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let output = run(state.filter(&[]), b"b\n");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains(&format!("process {}", first.id())), "{message}");
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
}

#[test]
#[cfg(unix)]
fn killed_at_any_time_it_loses_no_line_and_repeats_few() {
    const LINES: u32 = 300_000;
    let state = State::new("killed");
    let input = std::env::temp_dir().join(format!("hapax-state-input-{}", std::process::id()));
    let lines: String = (0..LINES).map(|i| format!("{i}\n")).collect();
    std::fs::write(&input, lines).unwrap();
    let printed = std::env::temp_dir().join(format!("hapax-state-output-{}", std::process::id()));
    let _ = std::fs::remove_file(&printed);
    let mut kills = 0;
    let mut wait = std::time::Duration::from_micros(500);
    loop {
        let output = std::fs::OpenOptions::new().create(true).append(true).open(&printed).unwrap();
        let mut child = state.filter(&[input.to_str().unwrap()]).stdout(output).spawn().unwrap();
        // Later and later, so that it gets done one day.
        std::thread::sleep(wait);
        wait = wait * 6 / 5;
        if child.try_wait().unwrap().is_some_and(|status| status.success()) {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    let mut seen = vec![0_u32; LINES as usize];
    for line in std::fs::read_to_string(&printed).unwrap().lines() {
        // A line that a kill has cut in two was printed again as a whole; what is left of it is no number of a line, or another's.
        if let Ok(number) = line.parse::<u32>()
            && let Some(seen) = seen.get_mut(number as usize)
        {
            *seen += 1;
        }
    }
    std::fs::remove_file(&printed).unwrap();
    std::fs::remove_file(&input).unwrap();
    let missing = seen.iter().filter(|seen| **seen == 0).count();
    let repeated: u32 = seen.iter().map(|seen| seen.saturating_sub(1)).sum();
    println!("{kills} kills, {missing} lines missing, {repeated} printed again");
    assert_eq!(missing, 0);
    assert!(kills > 0 && repeated < kills * LINES / 2, "{kills} kills, {repeated} repeated");
}

#[test]
fn inspection() {
    let state = State::new("inspect");
    state.lines(&[], "a\nb\na\n");
    let inspect = || {
        let hapax = env!("CARGO_BIN_EXE_hapax");
        Command::new(hapax).args(["journal", "inspect", "--runs"]).arg(&state.0).output().unwrap()
    };
    let text = String::from_utf8(inspect().stdout).unwrap();
    let file = state.0.join("00000000000000000000.hapax");
    let bytes = std::fs::read(&file).unwrap();
    let first = format!("00000000000000000000.hapax: {} bytes, 1 blocks from 0", bytes.len());
    assert!(text.starts_with(&first) && text.contains(" 2 accepted\n"), "{text}");
    assert!(text.ends_with("1 files: ids 2 accepted, 0 forgotten; 0 times cleared\n"), "{text}");
    std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    let text = String::from_utf8(inspect().stdout).unwrap();
    let torn = format!("torn at offset 64: a block is cut off; {} bytes are not valid", bytes.len() - 65);
    assert!(text.contains(&torn), "{text}");
    std::fs::write(&file, [b'?'; 100]).unwrap();
    let output = inspect();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("magic is ????????, expected HAPAXJNL"));
}

#[test]
fn the_seed_is_the_first_runs_and_another_one_is_an_error_that_says_so() {
    let state = State::new("seed");
    assert_eq!(state.lines(&["--seed", "5"], "a\n"), "a\n");
    assert_eq!(state.lines(&[], "b\na\n"), "b\n");
    assert_eq!(state.lines(&["--seed", "5"], "c\nb\n"), "c\n");
    let output = run(state.filter(&["--seed", "6"]), b"d\n");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{message}");
    assert!(message.contains("--seed 6") && message.contains("another seed"), "{message}");
}
