//! `--spill`: the same answers as in memory, for inputs that memory has no room for.
#![cfg(unix)]

use crate::filter::bytes::gzip;
use crate::filter::inputs::Directory;
use crate::filter::memory::peak_mb;
use crate::filter::{code_and_errors, filter, run, send, text, until};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use testkit::random::Random;

/// A directory for temporary files, which must be empty at the end of each run.
struct Spill(Directory);

impl Spill {
    fn new(name: &str) -> Self {
        Spill(Directory::new(&format!("spill-{name}")))
    }

    fn path(&self) -> &str {
        self.0.0.to_str().unwrap()
    }

    fn filter(&self, options: &[&str]) -> Command {
        filter(&[&["--spill", self.path(), "--max-memory", "64M"], options].concat())
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0.0).unwrap().next().is_none()
    }
}

/// Returns the first line with each id.
fn first_sightings<'l>(lines: impl Iterator<Item = &'l str>) -> String {
    let mut seen = HashSet::new();
    lines.filter(|line| seen.insert(line.to_string())).map(|line| format!("{line}\n")).collect()
}

/// Makes a named pipe.
fn pipe(directory: &Directory, name: &str) -> String {
    let path = directory.0.join(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path.to_str().unwrap().to_string()
}

#[test]
fn lines_are_those_of_a_plain_set_in_their_order() {
    let spill = Spill::new("set");
    let directory = Directory::new("spill-set-inputs");
    // Of the lines of the last but one, half have one id.
    for (lines, of, hot_percent) in
        [(0, 1, 0), (1, 1, 0), (500_000, 1, 0), (100_000, 100, 0), (400_000, 100_000, 50), (700_000, 600_000, 0)]
    {
        let mut random = Random(lines);
        let mut id = || if random.percent(hot_percent) { 0 } else { random.below(of) };
        let ids: Vec<String> = (0..lines).map(|_| id().to_string()).collect();
        let input: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let expected = first_sightings(ids.iter().map(String::as_str));
        let file = directory.file("in", input.as_bytes());
        let output = spill.filter(&["--stats", "--format=json", &file]).output().unwrap();
        assert!(output.status.success() && text(&output.stdout) == expected, "{}", text(&output.stderr));
        let stats = text(&output.stderr);
        assert!(stats.contains(&format!("\"lines\":{lines},")) && stats.contains("\"copied_bytes\":0,"), "{stats}");
        assert_eq!(stats.contains("\"temporary_bytes\":0"), lines < 700_000, "{stats}");
        let output = run(spill.filter(&["--stats", "--format=json"]), input.as_bytes());
        assert!(output.status.success() && text(&output.stdout) == expected, "{}", text(&output.stderr));
        let stats = text(&output.stderr);
        assert!(stats.contains(&format!("\"copied_bytes\":{},", input.len())), "{stats}");
        assert!(spill.is_empty());
    }
}

/// Returns what a run has printed, to the output and to the files of `--duplicates-to` and
/// `--count`.
fn all_outputs(mut command: Command, directory: &Directory, standard_input: &str) -> [String; 3] {
    let [duplicates, counts] = ["duplicates", "counts"].map(|name| directory.file(name, b""));
    let is_marked = command.get_args().any(|arg| arg == "--mark" || arg == "--duplicates");
    if !is_marked {
        command.args(["--duplicates-to", &duplicates]);
    }
    let output = command.args(["--count", &counts]).stdin(File::open(standard_input).unwrap()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{command:?}: {output:?}");
    [text(&output.stdout), fs::read_to_string(duplicates).unwrap(), fs::read_to_string(counts).unwrap()]
}

#[test]
fn with_all_other_options_it_prints_what_is_printed_in_memory() {
    let (spill, directory) = (Spill::new("options"), Directory::new("spill-options-inputs"));
    let mut random = Random(11);
    let mut csv = |lines: u64| {
        let rows = (0..lines).map(|i| match i % 50 {
            7 => format!("{},,{i}\n", random.below(9)),
            8 => format!("\"a\nb{}\",x,{i}\r\n", random.below(9)),
            _ => format!("{},{},{i}\n", random.below(20), random.below(300)),
        });
        "order,line,what\n".to_string() + &rows.collect::<String>()
    };
    let plain = directory.file("plain.csv", csv(8_000).trim_end().as_bytes());
    let packed = directory.file("packed.csv.gz", &gzip(csv(5_000).as_bytes()));
    let zstd = directory.file("zstd.csv.zst", &zstd::encode_all(csv(5_000).as_bytes(), 1).unwrap());
    let inputs = [&*plain, &packed, "-", &zstd, &plain, "-"];
    let columns = ["--column", "order,line", "--delimiter", ",", "--missing"];
    for options in [
        &[&columns[..], &["pass"]].concat()[..],
        &[&columns[..], &["drop", "--mark"]].concat(),
        &[&columns[..], &["drop", "--duplicates"]].concat(),
        &["--field", "2", "--delimiter", ",", "--header", "--missing", "pass"],
        &["--field", "1", "--delimiter", ",", "--quote", "none", "--line-bytes-max", "9", "--on-bad", "skip"],
        &["--regex", "^([^,]*),", "--missing", "drop", "--delimiter", ","],
    ] {
        let options = [options, &inputs].concat();
        let expected = all_outputs(filter(&options), &directory, &packed);
        assert!(expected[0].len() > 100 && expected[2].len() > 100, "{options:?}: {expected:?}");
        assert_eq!(all_outputs(spill.filter(&options), &directory, &packed), expected, "{options:?}");
    }
    let json: String = (0..5_000).map(|i| format!("{{\"n\": {i}, \"id\": \"{}\"}}\n", i * i % 997)).collect();
    let json = directory.file("in.jsonl", json.as_bytes());
    let expected = all_outputs(filter(&["--json", "/id", &json]), &directory, &json);
    assert_eq!(all_outputs(spill.filter(&["--json", "/id", &json]), &directory, &json), expected);
    assert!(spill.is_empty());
}

#[test]
fn standard_input_is_read_from_where_it_is() {
    let (spill, directory) = (Spill::new("stdin"), Directory::new("spill-stdin-input"));
    let input = directory.file("in", b"first\na\nb\na\nc\n");
    let mut open = File::open(&input).unwrap();
    open.read_exact(&mut [0; 6]).unwrap();
    let output = spill.filter(&["-", "-"]).stdin(open).output().unwrap();
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("a\nb\nc\n".into(), String::new()));
    // A file of the system, whose length is not said.
    let output = spill.filter(&["/proc/self/mountinfo", "-"]).stdin(File::open(&input).unwrap()).output().unwrap();
    assert!(output.status.success() && text(&output.stdout).ends_with("first\na\nb\nc\n"), "{output:?}");
}

/// Starts a run on a file and then on a named pipe; calls `change` when the file was read once;
/// then ends the pipe.
fn changed_meanwhile(name: &str, input: &[u8], change: impl FnOnce(&str)) -> (Output, String) {
    let (spill, directory) = (Spill::new(name), Directory::new(&format!("spill-{name}-input")));
    let (file, pipe) = (directory.file("in", input), pipe(&directory, "pipe"));
    let child = spill.filter(&[&file, &pipe]).spawn().unwrap();
    // Opened once it is read from, and that is after the file.
    let end = File::options().write(true).open(&pipe).unwrap();
    change(&file);
    drop(end);
    let output = child.wait_with_output().unwrap();
    assert!(spill.is_empty());
    (output, file)
}

#[test]
fn a_file_that_changes_is_an_error_before_anything_of_the_change_is_printed() {
    // Some chunks that are compared each by itself.
    let input: String = (0..200_000).map(|i| format!("{i}\n")).collect();
    for (name, from) in [("changed-early", 10), ("changed-late", 1_000_000)] {
        let (output, file) = changed_meanwhile(name, input.as_bytes(), |file| {
            let mut changed = input.clone().into_bytes();
            changed[from] = b'x';
            fs::write(file, changed).unwrap();
        });
        let (code, errors) = code_and_errors(&output);
        assert!(code == Some(1) && errors.contains(&format!("{file}: it was changed")), "{code:?} {errors}");
        assert!(input.starts_with(&text(&output.stdout)) && !output.stdout.contains(&b'x'));
        assert_eq!(output.stdout.is_empty(), from < 1_000, "what comes before is printed");
    }
    let (output, _) = changed_meanwhile("truncated", input.as_bytes(), |file| {
        File::options().write(true).open(file).unwrap().set_len(1_000_000).unwrap();
    });
    let (code, errors) = code_and_errors(&output);
    let expected = format!("it had {} bytes, and has 1000000 now", input.len());
    assert!(code == Some(1) && errors.contains(&expected), "{code:?} {errors}");
    let (output, _) = changed_meanwhile("removed", input.as_bytes(), |file| fs::remove_file(file).unwrap());
    let (code, errors) = code_and_errors(&output);
    assert!(code == Some(1) && errors.contains("No such file") && output.stdout.is_empty(), "{code:?} {errors}");
}

#[test]
fn a_file_that_grows_is_read_as_far_as_it_was_long() {
    let (output, _) = changed_meanwhile("grown", b"a\nb\na\nc", |file| {
        File::options().append(true).open(file).unwrap().write_all(b"d\ne\n").unwrap();
    });
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("a\nb\nc\n".into(), String::new()));
    // Nor does it matter if the same content has another inode.
    let (output, _) = changed_meanwhile("replaced", b"a\nb\na\n", |file| {
        fs::remove_file(file).unwrap();
        fs::write(file, b"a\nb\na\nand more\n").unwrap();
    });
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("a\nb\n".into(), String::new()));
}

#[test]
fn options_that_contradict_it_are_refused_and_both_are_named() {
    let spill = Spill::new("refused");
    for options in [
        &["--window", "1h"][..],
        &["--window", "1h", "--history", "2h:1e-6:1M"],
        &["--window", "1h", "--refresh-on-duplicate"],
        &["--window", "1h", "--time-field", "2"],
        &["--state", "state"],
        &["--capacity", "1M"],
        &["--seed", "7"],
    ] {
        let (code, errors) = code_and_errors(&spill.filter(options).output().unwrap());
        let named = errors.contains("--spill") && options.iter().any(|o| o.starts_with("--") && errors.contains(o));
        assert!(code == Some(2) && named && errors.contains("cannot be used with"), "{options:?}: {errors}");
    }
    let (code, errors) = code_and_errors(&filter(&["--spill", spill.path(), "--max-memory", "60M"]).output().unwrap());
    assert!(code == Some(2) && errors.contains("--max-memory: got 60 MiB"), "{errors}");
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let directory = Directory::new("spill-nowhere");
    let file = directory.file("in", b"a\na\n");
    for (place, why) in [("/no/such/place", "No such file"), (&*file, "Not a directory"), ("/proc", "")] {
        let (code, errors) = code_and_errors(&filter(&["--spill", place, &file]).output().unwrap());
        assert!(code == Some(1) && errors.contains(&format!("--spill {place}: ")) && errors.contains(why), "{errors}");
    }
}

#[test]
fn a_line_that_is_bad_is_an_error_before_anything_is_printed() {
    let spill = Spill::new("bad");
    let output = run(spill.filter(&["--json", "/id"]), b"{\"id\": 1}\n{\"id\": 2}\nno\n");
    let (code, errors) = code_and_errors(&output);
    assert!(code == Some(3) && errors.contains("standard input, line 3") && output.stdout.is_empty(), "{errors}");
    let output = spill.filter(&["/no/such/file"]).output().unwrap();
    assert_eq!(
        code_and_errors(&output),
        (Some(1), "hapax: /no/such/file: No such file or directory (os error 2)\n".into())
    );
    let cut = Directory::new("spill-cut");
    let packed = gzip(b"a\nb\n".repeat(100_000).as_slice());
    let output = spill.filter(&[&cut.file("in.gz", &packed[..packed.len() - 9])]).output().unwrap();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
}

/// Returns different lines of more than the buffers of 64 MB hold.
fn many_lines() -> String {
    (0..700_000).map(|i| format!("{i}\n")).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_names_the_directory_and_nothing_is_printed() {
    use testkit::mounted::Mounted;
    let (spill, directory) = (Spill::new("full"), Directory::new("spill-full-input"));
    let input = many_lines();
    let file = directory.file("in", input.as_bytes());
    let disk = match Mounted::in_memory(&spill.0.0, "1m") {
        Ok(disk) => disk,
        Err(why) => return testkit::skipped(format_args!("a small file system takes root: {why}")),
    };
    for output in [spill.filter(&[&file]).output().unwrap(), run(spill.filter(&[]), input.as_bytes())] {
        let (code, errors) = code_and_errors(&output);
        assert!(code == Some(1) && errors.contains(&format!("--spill {}: No space left", spill.path())), "{errors}");
        assert!(output.stdout.is_empty() && errors.contains("Give a directory with more room") && spill.is_empty());
    }
    disk.unmount().unwrap();
}

/// Returns the bytes that a run has read and written so far.
#[cfg(target_os = "linux")]
fn read_and_written(child: &Child) -> (u64, u64) {
    let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
    let count = |name| io.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap();
    (count("rchar: "), count("wchar: "))
}

/// Waits until a run has read this many bytes of its input, or more.
#[cfg(target_os = "linux")]
fn wait_for_reads(child: &Child, bytes: u64) {
    until("it has read", || read_and_written(child).0 >= bytes);
}

#[cfg(target_os = "linux")]
#[test]
fn whoever_ends_it_finds_nothing_left() {
    for (signal, code) in [(libc::SIGKILL, None), (libc::SIGINT, Some(130)), (libc::SIGTERM, Some(143))] {
        let spill = Spill::new(&format!("ended-{signal}"));
        let input = many_lines();
        let mut child = spill.filter(&[]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        // The last piece, shorter than a chunk, waits to be filled.
        wait_for_reads(&child, input.len() as u64);
        let files = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        let open = files
            .filter(|file| fs::read_link(file.as_ref().unwrap().path()).is_ok_and(|to| to.starts_with(spill.path())));
        assert_eq!((open.count(), spill.is_empty()), (2, true), "a file for ids, one for the input, and no names");
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (code, 0), "{output:?}");
        assert!(spill.is_empty());
        drop(stdin);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_while_duplicates_are_looked_for_ends_it_before_anything_is_printed() {
    let (spill, directory) = (Spill::new("signal-find"), Directory::new("spill-signal-find-input"));
    let input: String = (0..2_000_000).map(|i| format!("{i}\n")).collect();
    let file = directory.file("in", input.as_bytes());
    for attempt in 1.. {
        let child = spill.filter(&[&file]).spawn().unwrap();
        // More than the input and the program's own files: then digests are read, of which there
        // are about 28 MB.
        wait_for_reads(&child, input.len() as u64 + (1 << 20));
        send(libc::SIGSTOP, &child);
        let (read, written) = read_and_written(&child);
        send(libc::SIGINT, &child);
        send(libc::SIGCONT, &child);
        let output = child.wait_with_output().unwrap();
        assert!(written > 20_000_000 && spill.is_empty(), "{written}");
        if read < input.len() as u64 + written / 2 {
            assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0), "{output:?}");
            return;
        }
        assert!(attempt < 20, "all was found before it was seen");
    }
}

#[test]
fn a_signal_while_lines_are_printed_ends_it_at_a_whole_line() {
    let (spill, directory) = (Spill::new("signal"), Directory::new("spill-signal-input"));
    let input = many_lines();
    let mut child = spill.filter(&[&directory.file("in", input.as_bytes())]).spawn().unwrap();
    let mut first = [0; 1];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    send(libc::SIGINT, &child);
    let output = child.wait_with_output().unwrap();
    let printed = text(&[&first[..], &output.stdout].concat());
    assert_eq!(output.status.code(), Some(130), "the rest did not fit into the pipe: {}", printed.len());
    assert!(input.starts_with(&printed) && printed.ends_with('\n') && printed.len() < input.len());
}

#[test]
fn a_reader_that_goes_ends_it() {
    let (spill, directory) = (Spill::new("reader"), Directory::new("spill-reader-input"));
    // While lines are printed.
    let mut child = spill.filter(&[&directory.file("in", many_lines().as_bytes())]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code_and_errors(&output), (Some(0), String::new()));
    // While the input is read, which goes on and on.
    let mut child = spill.filter(&[]).stdin(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let piece = b"x\n".repeat(100_000);
    while stdin.write_all(&piece).is_ok() {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(code_and_errors(&output), (Some(0), String::new()));
    assert!(spill.is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_an_error() {
    let (spill, directory) = (Spill::new("full-output"), Directory::new("spill-full-output-input"));
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let output = spill.filter(&[&directory.file("in", b"a\na\n")]).stdout(full()).output().unwrap();
    let (code, errors) = code_and_errors(&output);
    assert!(code == Some(1) && errors.contains("standard output: No space left"), "{errors}");
}

/// Returns lines that are almost as long as they may be, each behind some short ones.
#[cfg(target_os = "linux")]
fn long_lines() -> Vec<u8> {
    let long = "x".repeat(15 << 20);
    let short = |from: u64| (from..from + 60_000).map(|i| format!("{{\"id\": \"{i}\"}}\n"));
    (0..testkit::long(2, 6))
        .flat_map(|i| short(i * 60_000).chain([format!("{{\"id\": \"\\u0041{i}{long}\"}}\n")]))
        .collect::<String>()
        .into()
}

#[cfg(target_os = "linux")]
#[test]
fn the_whole_process_stays_within_its_memory() {
    let (spill, directory) = (Spill::new("memory"), Directory::new("spill-memory-input"));
    let file = directory.file("different", many_lines().as_bytes());
    let short = directory.file("short", &b"x\n".repeat(800_000));
    let long = directory.file("long", &long_lines());
    for (what, input, options, most) in [
        ("many ids", &file, &[][..], 64),
        ("short lines", &short, &[], 64),
        // Twice the longest of the lines comes on top, and twice its id if it is another text. (Few
        // ids leave three quarters of the buffers of 8 MB untouched.)
        ("long lines", &long, &[], 64 - 6 + 2 * 16),
        ("long ids", &long, &["--json", "/id"], 64 - 6 + 4 * 16),
        ("lines that are too long", &long, &["--on-bad", "skip", "--line-bytes-max", "14M"], 64 - 6 + 2 * 16),
    ] {
        let named = peak_mb(&spill.filter(&[options, &[input]].concat()), Stdio::null());
        println!("{what}: {named} MB");
        assert!(named < most, "{what}: {named} MB");
        // A pipe is copied first, whatever is in it.
        if what != "many ids" && testkit::long(true, false) {
            continue;
        }
        let open = File::open(Path::new(input)).unwrap();
        let mut cat = Command::new("cat").stdin(open).stdout(Stdio::piped()).spawn().unwrap();
        let piped = peak_mb(&spill.filter(options), cat.stdout.take().unwrap());
        assert!(cat.wait().unwrap().success());
        println!("{what}: {piped} MB from a pipe");
        assert!(piped < most, "{what}: {piped} MB from a pipe");
    }
}
