//! `--state`: the ids that are remembered from one run to the next.

use crate::filter::{filter, run, said, text, until};
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
        assert!(output.status.success(), "{}", text(&output.stderr));
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
    let first = format!("00000000000000000000.hapax: {} bytes, ", bytes.len());
    assert!(text.starts_with(&first) && text.contains(" 2 accepted\n"), "{text}");
    assert!(text.ends_with("1 files: ids 2 accepted, 0 forgotten; 0 times cleared\n"), "{text}");
    std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    let text = String::from_utf8(inspect().stdout).unwrap();
    // It had come to a clean end, so no crash has caused that.
    assert!(text.contains("damaged: ") && text.contains("a block is cut off at offset "), "{text}");
    std::fs::write(&file, [b'?'; 200]).unwrap();
    let text = String::from_utf8(inspect().stdout).unwrap();
    assert!(text.contains("damaged: ") && text.contains("2 ids lost"), "{text}");
    // Where there is nothing else of a journal, it is no journal.
    let nothing = crate::filter::inputs::Directory::new("no-journal");
    nothing.file("00000000000000000000.hapax", &[b'?'; 200]);
    let hapax = env!("CARGO_BIN_EXE_hapax");
    let output = Command::new(hapax).args(["journal", "inspect"]).arg(&nothing.0).output().unwrap();
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

/// Returns the names of the files of a state, in order.
fn files(state: &State) -> Vec<PathBuf> {
    let files = std::fs::read_dir(&state.0).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "hapax")).collect();
    files.sort();
    files
}

#[test]
fn damage_is_refused_or_said_with_an_exit_code_of_its_own() {
    let state = State::new("damage");
    // A block each.
    (0..5).for_each(|run| drop(state.lines(&[], format!("{run}a\n{run}b\n"))));
    let file = files(&state).pop().unwrap();
    let whole = std::fs::read(&file).unwrap();
    // The block with the ids: a run that waited before it read anything has written others.
    let payload_bytes = |at: usize| u32::from_le_bytes(whole[at + 4..at + 8].try_into().unwrap());
    let blocks = (0..whole.len() - 8).filter(|at| whole[*at..].starts_with(b"hxbk"));
    let block = blocks.max_by_key(|at| payload_bytes(*at)).expect("a run writes a block");
    let mut damaged = whole.clone();
    damaged[block] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let ran = |args: &[&str], input: &str| said(&run(state.filter(args), input.as_bytes()));
    let (code, printed, errors) = ran(&[], "new\n");
    assert_eq!((code, printed.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("--damage keep") && errors.contains(file.to_str().unwrap()), "{errors}");
    assert_eq!(std::fs::read(&file).unwrap(), damaged, "nothing was changed");
    let (code, printed, errors) = ran(&["--damage", "keep"], "new\n4a\n3a\n");
    assert_eq!(code, Some(5), "{errors}");
    assert_eq!(printed, "new\n4a\n", "what is whole was kept: {errors}");
    assert!(errors.contains("warning: ") && errors.contains("2 ids are lost"), "{errors}");
    assert_eq!(ran(&[], "new\n4b\n").0, Some(0), "it is said once");
    let (code, _, errors) = ran(&["--damage", "keep", "--state"], "");
    assert!(code == Some(2), "{errors}");
}

#[test]
fn a_torn_end_is_a_note() {
    let state = State::new("torn");
    state.lines(&[], "a\nb\n");
    let before = files(&state).iter().map(|file| std::fs::metadata(file).unwrap().len()).sum::<u64>();
    let mut killed = state.filter(&[]).stdin(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (killed.stdin.take().unwrap(), BufReader::new(killed.stdout.take().unwrap()));
    // A line is recorded when its reader has taken it.
    let mut pass = |line: &str| {
        input.write_all(line.as_bytes()).unwrap();
        output.read_line(&mut String::new()).unwrap();
    };
    // A file is begun, whose header has 104 bytes; the next line is written behind the first.
    let bytes = || files(&state).iter().map(|file| std::fs::metadata(file).unwrap().len()).sum::<u64>();
    pass("c\n");
    until("the first one is in a file", || bytes() > before + 104);
    let first = bytes();
    pass("d\n");
    until("the next one is in the file", || bytes() > first);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let file = files(&state).pop().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    let output = run(state.filter(&[]), b"e\nb\n");
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"e\n"[..]), "{errors}");
    assert!(errors.contains("was cut off while it wrote"), "{errors}");
}

#[test]
#[cfg(unix)]
fn what_others_may_have_put_there_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let state = State::new("untrusted");
    assert_eq!(state.lines(&[], "a\n"), "a\n");
    let refused = |expected: &str| {
        let output = run(state.filter(&[]), b"b\n");
        let errors = text(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{errors}");
        assert!(errors.contains("--state") && errors.contains(expected) && !errors.contains("option"), "{errors}");
    };
    let set_mode = |mode| std::fs::set_permissions(&state.0, std::fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o777);
    refused("everybody may write, expected one with which its owner alone may write; give it to this user");
    set_mode(0o700);
    let (lock, victim) = (state.0.join("lock"), state.0.join("victim"));
    std::fs::write(&victim, "of somebody else").unwrap();
    std::fs::remove_file(&lock).unwrap();
    symlink(&victim, &lock).unwrap();
    refused("lock: it is a symbolic link, expected a file; look who has put it there, and delete it");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "of somebody else");
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(state.lines(&[], "a\nb\n"), "b\n");
}
