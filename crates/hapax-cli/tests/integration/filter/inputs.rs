//! Input that other programs accept, too, and input that must be refused: closed descriptors, the
//! output itself, padded and damaged gzip, other content behind it, quoted fields with
//! line breaks.

use crate::filter::bytes::{gzip, zstd};
use crate::filter::{filter, printed, run, said};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory that is removed at the end of the test.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hapax-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a script of the shell with the command as `$0`, in a directory.
#[cfg(unix)]
pub fn shell(directory: &Directory, script: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_hapax")]).current_dir(&directory.0).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
#[cfg(unix)]
fn a_closed_standard_output_is_an_error_and_nothing_is_remembered() {
    let directory = Directory::new("closed-output");
    directory.file("in", b"a\nb\n");
    let (code, _, errors) = said(&shell(&directory, "\"$0\" filter --state s in >&-"));
    assert_eq!((code, errors.as_str()), (Some(1), "hapax: standard output: it is closed\n"));
    let (code, output, errors) = said(&shell(&directory, "\"$0\" filter --state s in"));
    assert_eq!((code, output.as_str(), errors.as_str()), (Some(0), "a\nb\n", ""));
    // An open descriptor is accepted, /dev/null too, and standard error may be closed.
    for script in ["\"$0\" filter in > /dev/null", "\"$0\" filter in 2>&-", "\"$0\" filter in <&-"] {
        assert_eq!(said(&shell(&directory, script)).0, Some(0), "{script}");
    }
    for script in ["\"$0\" man >&-", "\"$0\" completions bash >&-", "\"$0\" plan --rate 1 --window 1s >&-"] {
        let (code, _, errors) = said(&shell(&directory, script));
        assert_eq!((code, errors.as_str()), (Some(1), "hapax: standard output: it is closed\n"), "{script}");
    }
}

#[test]
#[cfg(unix)]
fn a_closed_standard_input_is_an_error_where_it_is_to_be_read() {
    let directory = Directory::new("closed-input");
    directory.file("in", b"a\nb\n");
    for script in [
        "\"$0\" filter <&-",
        "\"$0\" filter in - <&-",
        "\"$0\" filter --state s <&-",
        "\"$0\" filter /dev/stdin <&-",
        "\"$0\" plan --from - --window 1s <&-",
    ] {
        let (code, output, errors) = said(&shell(&directory, script));
        let expected = (Some(1), "", "hapax: standard input: it is closed\n");
        assert_eq!((code, output.as_str(), errors.as_str()), expected, "{script}");
    }
    assert_eq!(said(&shell(&directory, "\"$0\" filter < /dev/null")).0, Some(0));
}

#[test]
#[cfg(unix)]
fn input_that_is_the_output_is_refused() {
    let directory = Directory::new("in-and-out");
    directory.file("in", b"a\nb\na\n");
    directory.file("other", b"c\n");
    for script in ["\"$0\" filter in >> in", "\"$0\" filter other - < in >> in", "\"$0\" filter --state s ./in >> in"] {
        let (code, _, errors) = said(&shell(&directory, script));
        let name = if script.contains('<') { "standard input" } else { "in" };
        assert_eq!(code, Some(1), "{script}: {errors}");
        assert!(errors.contains(&format!("{name}: input file is output file")), "{errors}");
        assert_eq!(std::fs::read(directory.0.join("in")).unwrap(), b"a\nb\na\n", "{script}");
    }
    // A device is no file: a terminal is both.
    assert_eq!(said(&shell(&directory, "\"$0\" filter /dev/null > /dev/null")).0, Some(0));
    assert_eq!(said(&shell(&directory, "\"$0\" filter in > out && cat out")).1, "a\nb\n");
}

#[test]
fn gzip_is_taken_with_padding_and_with_nothing_else_behind_it() {
    let first = gzip(b"a\nb\n");
    let second = gzip(b"b\nc\n");
    let zeros = [0; 700];
    for silent in
        [first.clone(), [&first[..], &zeros].concat(), [&first[..], &second].concat(), [&first[..], &[0]].concat()]
    {
        let output = run(filter(&[]), &silent);
        assert!(output.status.success() && output.stderr.is_empty(), "{:?}", said(&output));
        assert!(output.stdout.starts_with(b"a\nb\n"));
    }
    let directory = Directory::new("garbage");
    let end = first.len() + second.len();
    let more = zstd(b"d\n");
    for (garbage, zeros, what) in [
        (&b"garbage"[..], 0, "`garbage`"),
        (b"\0\0\0garbage", 3, "`garbage`"),
        (b"gar\0\xffe or more", 0, "`gar\\x00\\xffe o`"),
        (b"\x1f", 0, "`\\x1f`"),
        (b"\x1fx", 0, "`\\x1fx`"),
        (&more, 0, "zstd"),
        (b"\xfd7zXZ\0", 0, "xz"),
        // gzip, too, takes none behind zeros.
        (&[&zeros[..], &second].concat(), 700, "gzip again"),
    ] {
        let path = directory.file("in.gz", &[&first[..], &second, garbage].concat());
        let reason = match what {
            "gzip again" => "after zeros, and gzip does not read on there",
            _ => "and no longer gzip",
        };
        let error = format!("hapax: {path}: from offset {} on it is {what}, {reason}\n", end + zeros);
        assert_eq!(said(&filter(&[&path]).output().unwrap()), (Some(1), "a\nb\nc\n".to_string(), error));
        // A state goes on behind what was printed, and finds the same again.
        let state = directory.0.join(format!("state-{}", garbage.len()));
        for printed in ["a\nb\nc\n", ""] {
            let output = filter(&["--state", state.to_str().unwrap(), &path]).output().unwrap();
            assert_eq!((said(&output).0, said(&output).1.as_str()), (Some(1), printed));
        }
        let spilled = filter(&["--spill", directory.0.to_str().unwrap(), &path]).output().unwrap();
        assert_eq!((said(&spilled).0, said(&spilled).1.as_str()), (Some(1), ""));
    }
    // A member that is cut off, anywhere, or damaged is an error.
    for cut in 1..second.len() {
        let (code, ..) = said(&run(filter(&[]), &[&first[..], &second[..cut]].concat()));
        assert_eq!(code, Some(1), "cut at {cut}");
    }
    let mut damaged = second.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(said(&run(filter(&[]), &[&first[..], &damaged].concat())).0, Some(1));
}

#[test]
fn what_is_behind_zstd_is_said() {
    let directory = Directory::new("behind-zstd");
    let content = [zstd(b"a\n"), zstd(b"b\n")].concat();
    let rest = gzip(b"c\n");
    for (garbage, what) in [(&rest[..], "gzip"), (b"garbage", "`garbage`")] {
        let path = directory.file("in.zst", &[&content[..], garbage].concat());
        let (code, output, errors) = said(&filter(&[&path]).output().unwrap());
        assert_eq!((code, output.as_str()), (Some(1), "a\nb\n"));
        let end = content.len();
        assert_eq!(errors, format!("hapax: {path}: from offset {end} on it is {what}, and no longer zstd\n"));
    }
    // What is damaged elsewhere is told as the library has it.
    let mut damaged = content.clone();
    damaged[4] ^= 0x08; // a bit that is reserved
    let (code, _, errors) = said(&run(filter(&[]), &damaged));
    assert!(code == Some(1) && !errors.contains("no longer"), "{errors}");
}

#[test]
fn quoted_fields_may_have_line_breaks() {
    let csv = "id,note\n1,\"two\nlines\"\n\"2\n2\",x\r\n1,\"a \"\"b\"\"\r\n\r\nc\"\r\n\"2\n2\",\"\n\"\n3,y\n";
    let expected = "id,note\n1,\"two\nlines\"\n\"2\n2\",x\r\n3,y\n";
    let printed_so = |options: &[&str], text: &str| String::from_utf8(printed(options, text.as_bytes())).unwrap();
    assert_eq!(printed_so(&["--column", "id", "--delimiter", ","], csv), expected);
    // The header, too; other quotes; the last record without an end.
    let header = "\"the\nid\";n\n1;'\"\n1;'\"\n2;\"x\ny\"";
    assert_eq!(printed_so(&["--column", "the\nid", "--delimiter", ";"], header), "\"the\nid\";n\n1;'\"\n2;\"x\ny\"\n");
    assert_eq!(printed_so(&["--field", "1", "--quote", "'"], "'a\nb'\tx\n'a\nb'\ty\n"), "'a\nb'\tx\n");
    // Where none are quoted, lines are lines.
    let stray = "a,\"b\nc,d\n";
    assert_eq!(printed_so(&["--delimiter", ",", "--quote", "none"], stray), stray);
    assert_eq!(printed_so(&["--regex", "^."], stray), stray);
    assert_eq!(printed_so(&["--field", "1", "--delimiter", ",", "--quote", "none"], stray), stray);
    assert_eq!(printed_so(&["--field", "1", "--delimiter", "\t"], "x\t\"\ny\t\"\n"), "x\t\"\ny\t\"\n");
}

#[test]
fn records_of_many_lines_and_blocks_are_bounded() {
    // A record over several blocks, then many small ones.
    let long = format!("1,\"{}\"\n", "some text\n".repeat(100_000));
    let input = format!("{long}2,x\n{long}{}", "2,\"\n\"\n".repeat(100_000));
    let options = ["--field", "1", "--delimiter", ","];
    assert!(printed(&options, input.as_bytes()) == format!("{long}2,x\n").as_bytes());
    let small = [&options[..], &["--line-bytes-max", "1000"]].concat();
    let (code, _, errors) = said(&run(filter(&small), input.as_bytes()));
    assert_eq!(code, Some(3));
    assert!(errors.contains("line 1: it is longer than 1,000 B"), "{errors}");
    let skipping = [&small[..], &["--on-bad", "skip"]].concat();
    assert_eq!(String::from_utf8(printed(&skipping, input.as_bytes())).unwrap(), "2,x\n");
    // The number of a bad line counts records' lines as editors do.
    let (code, output, errors) = said(&run(filter(&options), b"1,\"a\nb\nc\"\n2,\"x\"y\n"));
    assert_eq!((code, output.as_str()), (Some(3), "1,\"a\nb\nc\"\n"));
    assert!(errors.contains("line 4: field 2: "), "{errors}");
    let (code, _, errors) = said(&run(filter(&options), b"1,a\n2,\"x\ny\n"));
    assert_eq!(code, Some(3));
    assert!(errors.contains("line 2: field 2: a quoted field does not end"), "{errors}");
}
