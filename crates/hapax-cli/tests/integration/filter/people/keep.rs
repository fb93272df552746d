//! `--keep last`: of each id the last record, in the order of those.

use crate::filter::bytes::gzip;
use crate::filter::inputs::Directory;
use crate::filter::{filter, printed, run, said};
use std::collections::HashSet;
use std::fs;
use testkit::random::Random;

/// Returns the last line with each id, and the others.
fn expected<'l>(lines: &[&'l str], id: impl Fn(&str) -> &str) -> [String; 2] {
    let mut seen = HashSet::new();
    let (mut last, mut others): (Vec<&'l str>, Vec<_>) = lines.iter().rev().partition(|line| seen.insert(id(line)));
    [&mut last, &mut others].map(|lines| {
        lines.reverse();
        lines.concat()
    })
}

#[test]
fn it_is_the_last_one_of_each_id_with_a_directory_and_without() {
    let directory = Directory::new("keep-last");
    let spill = directory.0.to_str().unwrap().to_string();
    let mut random = Random(45);
    let many = testkit::long((150_000, 105_000), (650_000, 450_000));
    for (lines, of) in [(0, 1), (1, 1), (5_000, 7), (60_000, 40_000), many] {
        let text: String = (0..lines).map(|i| format!("{}\t{i}\n", random.below(of))).collect();
        let all: Vec<_> = text.split_inclusive('\n').collect();
        let [last, others] = expected(&all, |line| line.split('\t').next().unwrap());
        let (plain, packed) = (directory.file("in", text.as_bytes()), directory.file("in.gz", &gzip(text.as_bytes())));
        // The counts of more repeated ids are bounds.
        let counts_file = if of < 100_000 { directory.file("counts", b"") } else { "/dev/null".to_string() };
        let options = ["--field", "1", "--keep", "last", "--count", &counts_file];
        let mut counts = Vec::new();
        for how in [&[][..], &["--spill", &spill, "--max-memory", "64M"]] {
            for file in [&plain, &packed] {
                let output = filter(&[&options, how, &["--stats", "--format=json", file]].concat()).output().unwrap();
                let (code, lines_of, errors) = said(&output);
                assert!(code == Some(0) && lines_of == last, "{lines} {how:?} {file}: {errors}");
                let duplicates = others.lines().count();
                assert!(errors.contains(&format!("\"duplicates\":{duplicates},")), "{errors}");
            }
            let piped = printed(&[&options[..4], how].concat(), text.as_bytes());
            assert!(piped == last.as_bytes(), "{lines} {how:?}: a pipe");
            counts.push(fs::read_to_string(&counts_file).unwrap());
        }
        assert!(counts[0] == counts[1], "{lines}: the same counts");
        // The others.
        let again = directory.file("again", b"");
        let kept = [&options[..4], &[&plain]].concat();
        assert!(printed(&[&kept[..], &["--duplicates-to", &again]].concat(), b"") == last.as_bytes());
        assert!(fs::read_to_string(&again).unwrap() == others);
        assert!(printed(&[&kept[..], &["--duplicates"]].concat(), b"") == others.as_bytes());
    }
}

#[test]
fn headers_lines_without_id_and_bad_ones_are_where_they_were() {
    let directory = Directory::new("keep-last-lines");
    let spill = directory.0.to_str().unwrap().to_string();
    let one = directory.file("one.csv", b"id,n\na,1\n,2\nb,3\n\"x\ny\",3\na,4\n");
    let two = directory.file("two.csv", b"id,n\n\"x\"y,5\n,6\n\"x\ny\",7");
    for how in [&[][..], &["--spill", &spill]] {
        let options = [&["--column", "id", "--keep", "last", "--missing", "pass", "--on-bad", "skip"], how].concat();
        let output = filter(&[&options[..], &[&one, &two]].concat()).output().unwrap();
        assert_eq!(said(&output).1, "id,n\n,2\nb,3\na,4\n,6\n\"x\ny\",7\n", "{output:?}");
        let only_a_header = filter(&[&options[..], &[&directory.file("three.csv", b"id,n\n")]].concat()).output();
        assert_eq!(said(&only_a_header.unwrap()).1, "id,n\n");
    }
    let marked = printed(&["--keep", "last", "--mark"], b"a\nb\na\n");
    assert_eq!(marked, b"duplicate:window\ta\nfresh:window\tb\nfresh:window\ta\n");
    // An error comes before anything is printed.
    let output = run(filter(&["--json", "/id", "--keep", "last"]), b"{\"id\":1}\nno\n");
    assert!(output.status.code() == Some(3) && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn what_contradicts_it_is_refused_and_named() {
    for options in [&["--window", "1h"][..], &["--state", "/nowhere"], &["--capacity", "9"], &["--seed", "9"]] {
        let (code, output, errors) = said(&filter(&[&["--keep", "last"], options].concat()).output().unwrap());
        assert_eq!((code, output.as_str()), (Some(2), ""), "{options:?}");
        assert!(errors.contains("--keep last") && errors.contains(options[0]), "{errors}");
    }
    assert_eq!(printed(&["--keep", "first", "--window", "1h"], b"a\na\n"), b"a\n");
}

#[test]
fn a_directory_that_takes_nothing_is_an_error_before_anything_is_printed() {
    let without = |how: &[&str]| {
        let mut command = filter(&[&["--keep", "last"], how].concat());
        command.env("TMPDIR", "/nowhere");
        said(&run(command, b"a\na\n"))
    };
    let (code, output, errors) = without(&[]);
    assert!((code, &output[..]) == (Some(1), "") && errors.contains("/nowhere"), "{output} {errors}");
    let (code, _, errors) = without(&["--max-memory", "1M"]);
    assert!(code == Some(2) && errors.contains("--keep last"), "{errors}");
}
