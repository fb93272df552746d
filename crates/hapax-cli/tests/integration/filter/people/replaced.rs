//! `--output`: the file is written beside, and replaced at the end of a run that has succeeded.

use crate::filter::inputs::{Directory, shell};
use crate::filter::{filter, run, said, send, until};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(directory: &Directory) -> Vec<String> {
    let names = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn it_may_be_an_input_and_keeps_its_permissions() {
    for (name, how) in [("plain", &[][..]), ("last", &["--keep", "last"]), ("spilled", &["--spill", "."])] {
        let directory = Directory::new(&format!("output-{name}"));
        let file = directory.file("lines", b"a\nb\na\n");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("lines", directory.0.join("link")).unwrap();
        let expected = if name == "last" { "b\na\n" } else { "a\nb\n" };
        for (output, input) in [("lines", "lines"), ("link", "lines"), ("./lines", "link"), ("lines", ".")] {
            fs::write(&file, "a\nb\na\n").unwrap();
            let done =
                filter(&[how, &["--output", output, input]].concat()).current_dir(&directory.0).output().unwrap();
            assert_eq!(said(&done), (Some(0), String::new(), String::new()), "{name} {output}");
            assert_eq!(
                (fs::read_to_string(&file).unwrap().as_str(), mode(&file)),
                (expected, 0o640),
                "{name} {output}"
            );
            assert!(fs::symlink_metadata(directory.0.join("link")).unwrap().is_symlink());
        }
        assert_eq!(names(&directory), ["lines", "link"]);
    }
    // A new one gets the permissions that others get.
    let directory = Directory::new("output-new");
    let output = shell(&directory, "umask 027; echo a | \"$0\" filter -o new; echo a > other");
    assert!(output.status.success() && mode(&directory.0.join("new").display().to_string()) == 0o640, "{output:?}");
    assert_eq!(names(&directory), ["new", "other"]);
}

#[test]
fn a_run_that_fails_leaves_it_as_it_was() {
    let directory = Directory::new("output-failed");
    let file = directory.file("out", b"as it was\n");
    let missing = directory.0.join("missing").display().to_string();
    for (code, options, input) in [
        (1, &[&*missing][..], &b""[..]),
        (3, &["--json", "/id"], b"{\"id\": 1}\nno\n"),
        (3, &["--json", "/id", "--keep", "last"], b"{\"id\": 1}\nno\n"),
        (1, &["--count", "/dev/full"], b"a\na\n"),
    ] {
        let output = run(filter(&[&["-o", &file], options].concat()), input);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {output:?}");
        assert_eq!(
            (fs::read_to_string(&file).unwrap().as_str(), names(&directory)),
            ("as it was\n", vec!["out".into()])
        );
    }
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let mut child = filter(&["-o", &file]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"a\n").unwrap();
        until("there is something beside it", || {
            names(&directory).iter().any(|name| fs::metadata(directory.0.join(name)).is_ok_and(|meta| meta.len() == 2))
        });
        send(signal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(
            (fs::read_to_string(&file).unwrap().as_str(), names(&directory)),
            ("as it was\n", vec!["out".into()])
        );
    }
    // Ids that were forgotten are said, and no line is missing.
    let lines: String = (0..100_000).map(|i| format!("{i}\n")).collect();
    let output = run(filter(&["-o", &file, "--max-memory", "64K"]), lines.as_bytes());
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(fs::read_to_string(&file).unwrap() == lines);
}

#[test]
fn what_cannot_be_replaced_is_said_at_the_beginning() {
    let directory = Directory::new("output-refused");
    let file = directory.file("lines", b"a\n");
    let path = |name: &str| directory.0.join(name).display().to_string();
    let (new, here) = (path("new"), path("."));
    for (code, options, says) in [
        (1, &["-o", &here][..], "Is a directory"),
        (1, &["-o", &path("no/file")], "No such file"),
        (2, &["-o", &new, "--state", &path("state")], "--state"),
        (2, &["-o", &new, "--duplicates-to", &new], "it is the output"),
        (2, &["-o", &file, "--count", &file], "it is the output"),
        (1, &["-o", "/dev/full"], "/dev/full: No space left"),
    ] {
        let other = directory.file("other", b"b\n");
        let (got, _, errors) = said(&filter(&[options, &[&other]].concat()).output().unwrap());
        assert!(got == Some(code) && errors.contains(says), "{options:?}: {got:?} {errors}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "a\n");
    // A device and a pipe are written to as they are.
    let (code, output, errors) =
        said(&shell(&directory, "\"$0\" filter -o /dev/null lines; \"$0\" filter -o /dev/stdout lines"));
    assert_eq!((code, output.as_str(), errors.as_str()), (Some(0), "a\n", ""));
    let script = "mkfifo pipe; cat pipe & \"$0\" filter -o pipe lines; wait";
    assert_eq!(said(&shell(&directory, script)).1, "a\n");
    assert!(fs::metadata("/dev/null").unwrap().permissions().mode() & 0o777 == 0o666);
}
