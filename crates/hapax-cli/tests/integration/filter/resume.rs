//! `--state`: a run continues where the last one has ended, and how a run ends.

use crate::filter::inputs::{Directory, shell};
use crate::filter::state::State;
use crate::filter::{bytes, code_and_errors, filter, run, send, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

const TIMES: [&str; 8] = ["--field", "1", "--delimiter", " ", "--time-field", "2", "--time-format", "s"];

fn with_window(window: &'static str) -> Vec<&'static str> {
    [&TIMES[..], &["--window", window]].concat()
}

/// Returns the output and the messages of a run over these files.
fn said(state: &State, args: &[&str], files: &[&str]) -> (String, String) {
    let output = state.filter(args).args(files).output().unwrap();
    let (code, printed, errors) = super::said(&output);
    assert_eq!(code, Some(0), "{errors}");
    (printed, errors)
}

fn lines(state: &State, args: &[&str], file: &str) -> String {
    let (printed, said) = said(state, args, &[file]);
    assert_eq!(said, "");
    printed
}

#[test]
fn the_same_complete_input_prints_nothing_the_second_time() {
    let directory = Directory::new("again");
    let count = testkit::long(1_500, 5_000);
    let text: String = (0..count).map(|i| format!("{} {}\n", i % 100, 1_000 + i)).collect();
    let args = with_window("10s");
    for (name, content) in [
        ("plain", text.clone().into_bytes()),
        ("gzip", bytes::gzip(text.as_bytes())),
        ("zstd", bytes::zstd(text.as_bytes())),
    ] {
        let state = State::new(&format!("again-{name}"));
        let file = directory.file(name, &content);
        assert_eq!(lines(&state, &args, &file), text, "every line is beyond the window of the last one of its id");
        assert_eq!(lines(&state, &args, &file), "", "{name}");
        let state = State::new(&format!("again-stream-{name}"));
        assert_eq!(state.lines(&args, &content), text);
        let output = run(state.filter(&args), &content);
        assert_eq!(output.stdout, b"", "{name}, from a pipe");
        let note = super::text(&output.stderr);
        assert!(note.contains(&format!("its first {count} lines")) && note.contains("are skipped"), "{note}");
    }
}

#[test]
fn what_was_printed_late_in_a_window_is_not_judged_by_an_earlier_run() {
    // The minimal case: X, a thousand others, an end, and X again beyond the window.
    let directory = Directory::new("late");
    let state = State::new("late");
    let mut text: String = "X 0\n".to_string() + &(1..=1_000).map(|i| format!("f{i} {i}\n")).collect::<String>();
    let file = directory.file("in", text.as_bytes());
    let args = with_window("100s");
    assert_eq!(lines(&state, &args, &file), text);
    text += "X 1050\n";
    directory.file("in", text.as_bytes());
    assert_eq!(lines(&state, &args, &file), "X 1050\n");
    // Killed before it was done, too.
    let state = State::new("late-killed");
    let mut first = state.filter(&args).stdin(Stdio::piped()).spawn().unwrap();
    let whole = text.strip_suffix("X 1050\n").unwrap();
    first.stdin.as_mut().unwrap().write_all(whole.as_bytes()).unwrap();
    let mut reader = BufReader::new(first.stdout.as_mut().unwrap());
    let mut printed = String::new();
    while printed.len() < whole.len() {
        reader.read_line(&mut printed).unwrap();
    }
    assert_eq!(printed, whole);
    // It looks for what was taken now and then, and writes that down; a copy tells when it has.
    let copy = State::new("late-copied");
    until("what was taken is in the file", || {
        std::fs::create_dir_all(&copy.0).unwrap();
        for file in std::fs::read_dir(&state.0).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), copy.0.join(file.file_name())).unwrap();
        }
        let output = run(copy.filter(&args), text.as_bytes());
        std::fs::remove_dir_all(&copy.0).unwrap();
        output.stdout == b"X 1050\n"
    });
    first.kill().unwrap();
    first.wait().unwrap();
    let output = run(state.filter(&args), text.as_bytes());
    assert_eq!(output.stdout, b"X 1050\n");
}

#[test]
fn five_runs_over_a_growing_log_print_each_first_sighting_once() {
    let directory = Directory::new("growing");
    let state = State::new("growing");
    let (mut text, mut printed) = (String::new(), String::new());
    for run in 0..5 {
        for i in 0..100 {
            let n = run * 100 + i;
            text += &format!("{n} {n}\n");
        }
        let file = directory.file("log", text.as_bytes());
        printed += &lines(&state, &with_window("50s"), &file);
        assert_eq!(printed, text, "run {run}");
    }
}

#[test]
fn replaced_and_truncated_files_are_new_and_renamed_ones_are_not() {
    let directory = Directory::new("rotated");
    let state = State::new("rotated");
    let args = with_window("1s");
    let file = directory.file("log", b"a 10\nb 20\n");
    assert_eq!(lines(&state, &args, &file), "a 10\nb 20\n");
    // Rotated: the old one goes on under its new name, and the new one is new.
    let old = directory.0.join("log.1").to_str().unwrap().to_string();
    std::fs::rename(&file, &old).unwrap();
    std::fs::write(&old, "a 10\nb 20\nc 25\n").unwrap();
    directory.file("log", b"a 30\nb 40\n");
    assert_eq!(said(&state, &args, &[&old, &file]).0, "c 25\na 30\nb 40\n");
    // Cut short in place, and filled again.
    std::fs::write(&file, "d 50\n").unwrap();
    assert_eq!(lines(&state, &args, &file), "d 50\n");
    std::fs::write(&file, "e 60\nf 70\ng 80\n").unwrap();
    assert_eq!(lines(&state, &args, &file), "e 60\nf 70\ng 80\n");
    // Compressed content that has become shorter is only known to be so when it ends.
    let gz = directory.file("gz", &bytes::gzip(b"h 100\ni 110\nj 120\n"));
    assert_eq!(lines(&state, &args, &gz), "h 100\ni 110\nj 120\n");
    std::fs::write(&gz, bytes::gzip(b"h 130\ni 140\n")).unwrap();
    assert_eq!(lines(&state, &args, &gz), "h 130\ni 140\n");
}

#[test]
fn a_last_line_without_its_end_may_get_it_or_go_on() {
    for (more, expected) in [("", ""), ("\n", ""), ("\r\n", ""), ("\nc 3\n", "c 3\n"), ("0\n\n", "b 20\n")] {
        let directory = Directory::new("unended");
        let state = State::new("unended");
        let args = [&with_window("1s")[..], &["--missing", "drop"]].concat();
        let file = directory.file("log", b"a 1\nb 2");
        assert_eq!(lines(&state, &args, &file), "a 1\nb 2\n");
        directory.file("log", format!("a 1\nb 2{more}").as_bytes());
        assert_eq!(lines(&state, &args, &file), expected, "{more:?}");
        assert_eq!(lines(&state, &args, &file), "", "{more:?}");
    }
}

#[test]
fn a_long_file_is_gone_on_with_behind_its_header() {
    let directory = Directory::new("long");
    let args = ["--column", "id", "--time-column", "at", "--time-format", "s", "--window", "1s", "--delimiter", ","];
    let row = |i: u32| format!("{},\"{}\n{}\",{i}\n", i % 7, "x".repeat(20), i);
    let last = testkit::long(3_000, 10_000);
    let mut text = "id,note,at\n".to_string() + &(10..last).map(row).collect::<String>();
    let state = State::new("long");
    let file = directory.file("log", text.as_bytes());
    assert!(lines(&state, &args, &file) == text);
    assert_eq!(lines(&state, &args, &file), "", "a header alone is nothing to print");
    text += &row(last);
    directory.file("log", text.as_bytes());
    let expected = format!("id,note,at\n{}", row(last));
    assert_eq!(lines(&state, &args, &file), expected, "a pipe is a new output, which gets a header");
    // The number of a bad line is the file's.
    directory.file("log", (text.clone() + "x,\"y\"z,1\n").as_bytes());
    let output = state.filter(&args).arg(&file).output().unwrap();
    let message = super::text(&output.stderr);
    assert!(message.contains(&format!("line {}: field 2", 1 + 2 * (last - 9) + 1)), "{message}");
}

#[test]
#[cfg(unix)]
fn a_header_is_printed_once_on_each_output() {
    let directory = Directory::new("header");
    let run = |out: &str| {
        let script = format!("\"$0\" filter --state s --header --field 1 in >> {out}");
        assert_eq!(code_and_errors(&shell(&directory, &script)), (Some(0), String::new()));
        std::fs::read_to_string(directory.0.join(out)).unwrap()
    };
    directory.file("in", b"id\n1\n");
    assert_eq!(run("out"), "id\n1\n");
    directory.file("in", b"id\n1\n2\n");
    assert_eq!(run("out"), "id\n1\n2\n");
    directory.file("in", b"id\n1\n2\n3\n");
    assert_eq!(run("other"), "id\n3\n");
    assert_eq!(run("third"), "", "nothing but a header");
    // Another input with a header of its own.
    std::fs::remove_file(directory.0.join("in")).unwrap();
    directory.file("new", b"");
    directory.file("in", b"id\n9\n");
    assert_eq!(run("third"), "id\n9\n");
}

#[test]
#[cfg(unix)]
fn half_a_line_of_a_killed_run_is_cut_off_and_nothing_else() {
    let directory = Directory::new("half");
    let run = || shell(&directory, "\"$0\" filter --state s in >> out");
    let out = || std::fs::read_to_string(directory.0.join("out")).unwrap();
    let append = |text: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).open(directory.0.join("out")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    directory.file("in", b"a\n");
    directory.file("out", b"others' half");
    assert!(run().status.success());
    assert_eq!(out(), "others' half\na\n", "what others have written stays");
    // A run that has ended leaves no half lines.
    append("half");
    directory.file("in", b"a\nb\n");
    assert!(run().status.success());
    assert_eq!(out(), "others' half\na\nhalf\nb\n");
    // A run that was killed may have left one.
    let output = std::fs::OpenOptions::new().append(true).open(directory.0.join("out")).unwrap();
    let mut killed = filter(&["--state", directory.0.join("s").to_str().unwrap()]);
    let mut killed = killed.stdin(Stdio::piped()).stdout(output).spawn().unwrap();
    killed.stdin.as_mut().unwrap().write_all(b"c\n").unwrap();
    while !out().ends_with("c\n") {
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    append("whole\nhal");
    directory.file("in", b"a\nb\nd\n");
    assert!(run().status.success());
    assert_eq!(out(), "others' half\na\nhalf\nb\nc\nwhole\nd\n");
    // Emptied, and a new file: nothing is cut.
    directory.file("in", b"a\nb\nd\ne\n");
    assert!(shell(&directory, "\"$0\" filter --state s in > out").status.success());
    assert_eq!(out(), "e\n");
}

#[test]
fn other_options_read_an_input_from_its_beginning_and_say_so() {
    let directory = Directory::new("options");
    let state = State::new("options");
    let file = directory.file("in", b"a 1\na 2\nb 3\n");
    assert_eq!(lines(&state, &["--field", "1", "--delimiter", " "], &file), "a 1\nb 3\n");
    let (printed, note) = said(&state, &["--field", "2", "--delimiter", " "], &[&file]);
    assert_eq!(printed, "a 1\na 2\nb 3\n");
    assert!(note.contains("other options") && note.contains("from its beginning"), "{note}");
    // Options for the time, and for bad lines, do not.
    let longer = ["--field", "2", "--delimiter", " ", "--window", "1h", "--on-bad", "skip", "--missing", "drop"];
    assert_eq!(lines(&state, &longer, &file), "");
}

#[test]
fn a_stream_that_arrives_again_after_its_end_is_new() {
    let state = State::new("arrives");
    let args = ["--window", "20ms"];
    assert_eq!(state.lines(&args, b"a\n"), "a\n");
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(state.lines(&args, b"a\n"), "a\n", "it has arrived again, after the window");
}

#[test]
fn a_live_stream_that_begins_otherwise_is_printed_at_once() {
    let state = State::new("live");
    assert_eq!(state.lines(&[], b"a\nb\n"), "a\nb\n");
    let mut child = state.filter(&[]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"c\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "c\n");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
#[cfg(unix)]
fn signals_end_at_a_whole_line_and_are_remembered() {
    let lines = |count: u64| (0..count).map(|i| format!("{i}\n")).collect::<String>();
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let directory = Directory::new(&format!("signal-{signal}"));
        let out = directory.0.join("out");
        let open = || std::fs::OpenOptions::new().create(true).append(true).open(&out).unwrap();
        let interrupted = |text: &str| {
            let (state, file) = (State::new(&format!("signal-{signal}")), directory.file("in", text.as_bytes()));
            let _ = std::fs::remove_file(&out);
            let mut child = state.filter(&[&file]).stdout(open()).spawn().unwrap();
            while std::fs::metadata(&out).map_or(0, |meta| meta.len()) < 1_000 {
                std::thread::yield_now();
            }
            send(signal, &child);
            (state, file, child.wait().unwrap().code())
        };
        // Whatever this machine does meanwhile: of enough lines it is not done before the signal
        // comes.
        let mut text = lines(600_000);
        let (mut state, mut file, mut ended) = interrupted(&text);
        while ended == Some(0) && text.len() < 1 << 30 {
            text = lines(2 * text.lines().count() as u64);
            drop(state);
            (state, file, ended) = interrupted(&text);
        }
        assert_eq!(ended, Some(code));
        let first = std::fs::read_to_string(&out).unwrap();
        assert!(first.ends_with('\n') && first.len() < text.len() && text.starts_with(&first));
        assert!(state.filter(&[&file]).stdout(open()).status().unwrap().success());
        assert!(std::fs::read_to_string(&out).unwrap() == text, "no line is missing, and none is there twice");
        // While it waits for input, too, and without a state.
        let mut child = filter(&[]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"a\n").unwrap();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        send(signal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

/// Waits until a process waits for the reader of its output: the pipe is full, and all of its
/// threads sleep.
#[cfg(target_os = "linux")]
fn wait_until_it_waits(child: &std::process::Child) {
    use std::os::fd::AsRawFd;
    let pipe = child.stdout.as_ref().unwrap().as_raw_fd();
    let is_full = || {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one `int`, which is there.
        assert_eq!(unsafe { libc::ioctl(pipe, libc::FIONREAD, &mut bytes) }, 0);
        // SAFETY: it only asks. (The command makes its pipe larger.)
        let size = unsafe { libc::fcntl(pipe, libc::F_GETPIPE_SZ) };
        // Its pages end with whole lines, so they are not filled to the last byte.
        bytes > size / 4 * 3
    };
    let sleeps = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with('S'))
    };
    let all_sleep = || {
        let mut tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().map(Result::unwrap);
        tasks.all(sleeps)
    };
    let mut polls_at_rest = 0;
    until("it waits for its reader", || {
        polls_at_rest = if is_full() && all_sleep() { polls_at_rest + 1 } else { 0 };
        polls_at_rest == 20
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_second_signal_ends_it_at_once() {
    let text: String = (0..500_000).map(|i| format!("{i}\n")).collect();
    let directory = Directory::new("second");
    let file = directory.file("in", text.as_bytes());
    // Nobody reads, so that the batch under way is never printed whole.
    let mut child = filter(&[&file]).spawn().unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    wait_until_it_waits(&child);
    send(libc::SIGTERM, &child);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none(), "it waits for its reader");
    // (Two that come before the first one is looked at are one.)
    until("it ends", || {
        send(libc::SIGTERM, &child);
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
#[cfg(unix)]
fn what_nobody_has_read_of_a_pipe_is_printed_again() {
    let directory = Directory::new("unread");
    let state = State::new("unread");
    let text: String = (0..300_000).map(|i| format!("{i}\n")).collect();
    let file = directory.file("in", text.as_bytes());
    // The reader takes some, and goes; the first time while more is written, then when all is.
    let mut all = Vec::new();
    for bytes in [100_000, 400_000, 700_000] {
        let mut child = state.filter(&[&file]).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut taken = vec![0; bytes];
        stdout.read_exact(&mut taken).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(child.try_wait().unwrap().is_none(), "it waits for its reader");
        drop(stdout);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        all.extend_from_slice(&taken);
        all.push(b'\n');
    }
    let rest = state.filter(&[&file]).output().unwrap();
    assert!(rest.status.success());
    all.extend_from_slice(&rest.stdout);
    let all = String::from_utf8(all).unwrap();
    let delivered: std::collections::HashSet<&str> = all.lines().collect();
    let missing = text.lines().filter(|line| !delivered.contains(line)).count();
    assert_eq!(missing, 0, "of {} lines", text.lines().count());
    let twice = all.lines().count() - delivered.len();
    assert!(twice < 3 * 45_000, "{twice} twice: no more than a batch for each reader");
    assert_eq!(state.filter(&[&file]).output().unwrap().stdout, b"");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_that_names_it() {
    // A tmpfs of 300 kB, in a namespace where that may be mounted; or a limit on the length of
    // files.
    let directory = Directory::new("full");
    let text: String = (0..100_000).map(|i| format!("{i}\n")).collect();
    directory.file("in", text.as_bytes());
    let mounted = Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|status| status.success());
    let script = if mounted {
        "mkdir m && exec unshare -rm sh -c 'mount -t tmpfs -o size=300k x m && timeout 60 \"$0\" filter --state m/st in >> out; \
             echo $? > code; mount -o remount,size=16m x m && timeout 60 \"$0\" filter --state m/st in >> out; echo $? > again' \"$0\""
    } else {
        testkit::skipped("a full file system takes root to mount one; the length of files is limited instead");
        "trap '' XFSZ; (ulimit -f 400; timeout 60 \"$0\" filter --state st in | cat >> out; timeout 60 \"$0\" filter --state st2 in > \
             /dev/null; echo $? > code); timeout 60 \"$0\" filter --state st in >> out; echo $? > again"
    };
    let output = shell(&directory, script);
    let message = super::text(&output.stderr);
    let read = |name: &str| std::fs::read_to_string(directory.0.join(name)).unwrap_or_default();
    assert_eq!(read("code").trim(), "1", "{message}");
    assert!(message.contains("/st") || message.contains("st2/"), "{message}");
    assert!(message.contains("No space left") || message.contains("File too large"), "{message}");
    // With room again it goes on: nothing is missing.
    assert_eq!(read("again").trim(), "0", "{message}");
    let printed = read("out");
    let known: std::collections::HashSet<&str> = printed.lines().collect();
    assert!(text.lines().all(|line| known.contains(line)) && known.len() == 100_000);
    println!("{} lines printed again", printed.lines().count() - known.len());
}
