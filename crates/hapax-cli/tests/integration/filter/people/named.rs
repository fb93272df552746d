//! Inputs that are named by a directory or a pattern, that are many, and that disappear.

use crate::filter::bytes::gzip;
use crate::filter::inputs::{Directory, shell};
use crate::filter::{filter, said, until};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Command;

#[test]
#[cfg(unix)]
fn a_directory_is_its_files_and_a_pattern_what_it_matches() {
    let directory = Directory::new("named");
    for name in ["logs/below", "csv", "empty/below"] {
        fs::create_dir_all(directory.0.join(name)).unwrap();
    }
    directory.file("logs/2.log", b"b\n");
    directory.file("logs/10.log.gz", &gzip(b"a\n"));
    directory.file("logs/.hidden", b"hidden\n");
    directory.file("logs/below/deep.log", b"deep\n");
    directory.file("logs/[x]*.log", b"as named\n");
    directory.file("csv/one.csv", b"id,n\na,1\na,2\n");
    std::os::unix::fs::symlink("../logs/2.log", directory.0.join("csv/../linked")).unwrap();
    for (arguments, expected) in [
        ("logs", "a\nb\nas named\n"),
        ("logs/ logs/2.log", "a\nb\nas named\n"),
        ("'logs/*.log'", "b\nas named\n"),
        ("'logs/[0-9]*'", "a\nb\n"),
        ("'logs/?.log' logs/10.log.gz", "b\na\n"),
        ("'l*/[!a-z]*.gz'", "a\n"),
        // A file of that name is meant, where there is one.
        ("'logs/[x]*.log'", "as named\n"),
        ("--column id csv", "id,n\na,1\n"),
        ("--spill . logs", "a\nb\nas named\n"),
        ("--keep last logs logs", "a\nb\nas named\n"),
    ] {
        let output = said(&shell(&directory, &format!("\"$0\" filter {arguments}")));
        assert_eq!(output, (Some(0), expected.to_string(), String::new()), "{arguments}");
    }
    for (arguments, says) in [
        ("empty", "empty: there is no file in it"),
        ("'logs/*.zip'", "logs/*.zip: No such file"),
        ("'no/*'", "no/*: No such file"),
    ] {
        let (code, output, errors) = said(&shell(&directory, &format!("\"$0\" filter {arguments}")));
        assert!((code, output.as_str()) == (Some(1), "") && errors.contains(says), "{arguments}: {errors}");
    }
    std::os::unix::fs::symlink("nowhere", directory.0.join("logs/zzz")).unwrap();
    let (code, output, errors) = said(&shell(&directory, "\"$0\" filter logs"));
    assert!(
        (code, output.as_str()) == (Some(1), "a\nb\nas named\n") && errors.contains("logs/zzz: No such"),
        "{errors}"
    );
    let planned = said(&shell(&directory, "\"$0\" plan --rate 10 --window 1m --column id --from csv")).1;
    assert!(planned.contains("hapax filter --column id --delimiter , --window 1m "), "{planned}");
}

#[test]
#[cfg(unix)]
fn thousands_of_inputs_need_few_open_files() {
    let directory = Directory::new("thousands");
    let files: u64 = testkit::long(600, 10_000);
    // The first has so many lines that their ids are sampled, too.
    for (how, lines) in [("", 1_200_000), ("--spill .", 60_000), ("--keep last", 60_000)] {
        let each = testkit::long(lines, 1_200_000) / files;
        let _ = fs::remove_dir_all(directory.0.join("in"));
        fs::create_dir(directory.0.join("in")).unwrap();
        for file in 0..files {
            let lines: String = (0..each).map(|line| format!("{}\n", file * each + line)).collect();
            directory.file(&format!("in/{file:05}"), lines.as_bytes());
        }
        let script = format!("ulimit -n 32; \"$0\" filter --stats --format json {how} in | wc -l");
        let (_, output, errors) = said(&shell(&directory, &script));
        let all = (each * files).to_string();
        assert!(output.trim() == all && errors.contains("\"duplicates\":0,"), "{how}: {output} {errors}");
        assert!(!how.is_empty() || errors.contains("from some of the input's ids"), "{errors}");
    }
}

/// Starts a run on a file, a named pipe, and more files; calls `change` when the first was read.
#[cfg(unix)]
fn meanwhile(directory: &Directory, options: &[&str], change: impl FnOnce()) -> (Option<i32>, String, String) {
    let (first, pipe) = (directory.file("first", b"a\nb\na\n"), directory.0.join("pipe"));
    let _ = fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let [second, third] = ["second", "third"].map(|name| directory.file(name, format!("{name}\n").as_bytes()));
    let files = [&first, pipe.to_str().unwrap(), &second, &third];
    let child = filter(&[options, &files].concat()).spawn().unwrap();
    // Opened once it is read from.
    let mut end = File::options().write(true).open(&pipe).unwrap();
    change();
    end.write_all(b"c").unwrap();
    drop(end);
    said(&child.wait_with_output().unwrap())
}

#[test]
#[cfg(unix)]
fn an_input_that_is_gone_when_its_turn_comes_is_an_error_behind_what_came_before() {
    let directory = Directory::new("gone");
    let spill = directory.0.to_str().unwrap();
    for (options, before) in [(&[][..], "a\nb\nc\n"), (&["--spill", spill], ""), (&["--keep", "last"], "")] {
        let second = directory.0.join("second");
        let (code, output, errors) = meanwhile(&directory, options, || fs::remove_file(&second).unwrap());
        assert_eq!((code, output.as_str()), (Some(1), before), "{options:?}: {errors}");
        assert_eq!(errors, format!("hapax: {}: No such file or directory (os error 2)\n", second.display()));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_input_that_is_removed_while_it_is_read_is_read_to_its_end_and_one_that_is_cut_short_is_an_error() {
    let directory = Directory::new("cut-short");
    let lines: String = (0..1_000_000).map(|i| format!("{i:09}\n")).collect();
    for (name, content) in [("plain", lines.clone().into_bytes()), ("packed", gzip(lines.as_bytes()))] {
        for is_removed in [true, false] {
            let file = directory.file(name, &content);
            let mut child = filter(&[&file]).spawn().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            let mut taken = vec![0; 1];
            stdout.read_exact(&mut taken).unwrap();
            // It waits for room in the pipe, somewhere in the file.
            until("it has stopped", || {
                let read = || fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
                let before = read();
                std::thread::sleep(std::time::Duration::from_millis(100));
                before == read()
            });
            if is_removed {
                fs::remove_file(&file).unwrap();
            } else {
                File::options().write(true).open(&file).unwrap().set_len(5).unwrap();
            }
            stdout.read_to_end(&mut taken).unwrap();
            let (code, _, errors) = said(&child.wait_with_output().unwrap());
            assert!(lines.as_bytes().starts_with(&taken) && taken.ends_with(b"\n"), "{name}: whole lines");
            if is_removed {
                assert!(code == Some(0) && taken.len() == lines.len(), "{name}: {errors}");
            } else {
                assert!(code == Some(1) && taken.len() < lines.len(), "{name}: {code:?} {errors}");
                assert!(errors.starts_with(&format!("hapax: {file}: it was cut short while it was read")), "{errors}");
            }
        }
    }
}
