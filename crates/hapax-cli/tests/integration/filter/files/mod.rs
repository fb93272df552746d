//! Files as people have them: byte order marks, UTF-16, other archives, blank lines, records of CSV
//! with line breaks.

mod headers;
mod merge;
mod odd;

use crate::filter::bytes::{gzip, zstd};
use crate::filter::inputs::{Directory, shell};
use crate::filter::state::State;
use crate::filter::{code_and_errors, filter, run, text};
use std::process::Command;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

const MARK: &str = "\u{feff}";
const CSV: [&str; 2] = ["--delimiter", ","];

/// Checks that a command has printed this, and nothing else.
fn prints(command: Command, input: &[u8], expected: &[u8], case: &str) {
    let said = format!("{command:?}");
    let output = run(command, input);
    let got = (output.status.code(), text(&output.stdout), text(&output.stderr));
    assert!(output.stdout == expected, "{case}: {said}: {got:?} is not {:?}", text(expected));
    assert_eq!((got.0, got.2), (Some(0), String::new()), "{case}: {said}");
}

/// Checks what is printed of an input: from a pipe, a file, compressed, and with `--spill`.
fn is_printed(options: &[&str], input: &[u8], expected: &[u8]) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let directory = Directory::new(&format!("files-{}", NEXT.fetch_add(1, Relaxed)));
    let (file, spill) = (directory.file("in", input), directory.0.to_str().unwrap());
    prints(filter(options), input, expected, "piped");
    prints(filter(&[options, &[&file]].concat()), b"", expected, "file");
    prints(filter(options), &gzip(input), expected, "gzip");
    prints(filter(options), &zstd(input), expected, "zstd");
    if !options.contains(&"--window") {
        for input in [input, &gzip(input)] {
            prints(filter(&[options, &["--spill", spill]].concat()), input, expected, "spilled");
        }
    }
}

/// Options, an input, and what is to be printed of it.
type Case = (&'static [&'static str], &'static str, &'static str);

const MARKED: [Case; 11] = [
    (&[], "a\nb\na\n", "a\nb\n"),
    (&[], "", ""),
    (&["--json", "/id"], "{\"id\":1}\n{\"id\":1}\n", "{\"id\":1}\n"),
    (&["--delimiter", ",", "--field", "1"], "1,x\n1,y\n", "1,x\n"),
    (&["--delimiter", ",", "--field", "1"], "\"x,1\",c\n\"x,1\",d\n", "\"x,1\",c\n"),
    (&["--delimiter", ",", "--field", "1"], "\"x\n1\",c\n\"x\n1\",d\n", "\"x\n1\",c\n"),
    (&["--regex", r"^user=(\d+)", "--missing", "drop"], "user=7 a\nuser=7 b\n", "user=7 a\n"),
    (&["--column", "id", "--delimiter", ","], "\"id\",c\r\n1,x\n1,ÿ😀\n2,ÿ😀", "\"id\",c\r\n1,x\n2,ÿ😀\n"),
    // Of the first line nothing is printed.
    (&["--duplicates"], "a\nb\nb\n", "b\n"),
    (&["--mark", "--header"], "l\na\na\n", "verdict\tl\nfresh:window\ta\nduplicate:window\ta\n"),
    (&["--window", "1s", "--field", "2", "--time-field", "1", "--time-format", "s"], "1\ta\n1\ta\n", "1\ta\n"),
];

/// Returns a text in UTF-16, with its mark.
fn utf16(text: &str, encoded: fn(u16) -> [u8; 2]) -> Vec<u8> {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(encoded).collect()
}

const UTF16: [fn(u16) -> [u8; 2]; 2] = [u16::to_le_bytes, u16::to_be_bytes];

#[test]
fn marks_are_skipped_and_printed_at_the_beginning_as_they_were() {
    for (options, input, expected) in MARKED {
        // Of nothing there is no beginning.
        let mark = if expected.is_empty() { "" } else { MARK };
        is_printed(options, format!("{MARK}{input}").as_bytes(), format!("{mark}{expected}").as_bytes());
        for encoded in UTF16 {
            let expected = if expected.is_empty() { Vec::new() } else { utf16(expected, encoded) };
            is_printed(options, &utf16(input, encoded), &expected);
        }
    }
    // Half a mark is none, and one within a line is text.
    is_printed(&[], b"\xef\xbba\n\xef\xbba\n", b"\xef\xbba\n");
    is_printed(&[], "a\n\u{feff}a\n".as_bytes(), "a\n\u{feff}a\n".as_bytes());
}

#[test]
fn a_mark_is_nowhere_but_at_the_beginning() {
    let directory = Directory::new("marks");
    let plain = directory.file("plain.csv", b"id\n1\n2\n");
    let marked = directory.file("marked.csv", "\u{feff}id\n2\n3\n".as_bytes());
    let packed = directory.file("packed.csv.gz", &gzip("\u{feff}id\n3\n4\n".as_bytes()));
    for how in [&["--column", "id", "--delimiter", ","][..], &["--delimiter", "\t"]] {
        let with = |files: &[&str]| filter(&[how, files].concat());
        prints(with(&[&plain, &marked, &packed]), b"", b"id\n1\n2\n3\n4\n", "in the middle");
        prints(with(&[&marked, &packed, &plain]), b"", "\u{feff}id\n2\n3\n4\n1\n".as_bytes(), "first");
        prints(
            with(&[&packed, &plain, "-"]),
            "\u{feff}id\n5\n".as_bytes(),
            "\u{feff}id\n3\n4\n1\n2\n5\n".as_bytes(),
            "-",
        );
    }
    // A file beside the output has its own beginning; an output that is gone on with has none.
    let script = "for i in 1 2; do \"$0\" filter --state s --duplicates-to again marked.csv >> out; \
                  printf '2\\nnew\\n' >> marked.csv; done; cat plain.csv > more; \"$0\" filter marked.csv >> more";
    assert_eq!(code_and_errors(&shell(&directory, script)), (Some(0), String::new()));
    let read = |name: &str| std::fs::read_to_string(directory.0.join(name)).unwrap();
    assert_eq!(read("out"), "\u{feff}id\n2\n3\nnew\n");
    assert_eq!(read("again"), "\u{feff}2\n");
    assert_eq!(read("more"), "id\n1\n2\nid\n2\n3\nnew\n");
}

#[test]
fn a_state_goes_on_in_a_marked_file() {
    let directory = Directory::new("marked-state");
    for rows in [3, 9_000] {
        let mut csv = "\u{feff}\"the\nid\",note\n".to_string();
        csv += &(0..rows).map(|i| format!("{i},\"a\n\"\"{i}\"\r\n")).collect::<String>();
        let state = State::new(&format!("marked-{rows}"));
        let options = ["--column", "the\nid", "--delimiter", ","];
        for more in ["", "x,\"\r\n\r\n\"\r\n", "y,z"] {
            csv += more;
            let file = directory.file("in.csv", csv.as_bytes());
            let header = "\u{feff}\"the\nid\",note\n";
            let end = if more == "y,z" { "\n" } else { "" };
            let expected = if more.is_empty() { csv.clone() } else { format!("{header}{more}{end}") };
            let command = |state: &State| state.filter(&[&options[..], &[&file]].concat());
            prints(command(&state), b"", expected.as_bytes(), more);
            prints(command(&state), b"", b"", "the same once more");
        }
    }
}

#[test]
fn utf16_is_refused_where_it_cannot_be_right() {
    let directory = Directory::new("utf16");
    let le = directory.file("le.txt", &utf16("a\nb\n", u16::to_le_bytes));
    let be = directory.file("be.txt", &utf16("a\nb\n", u16::to_be_bytes));
    let (plain, empty) = (directory.file("plain.txt", b"c\n"), directory.file("empty.txt", b""));
    let state = directory.0.join("state");
    let state = state.to_str().unwrap();
    let said = |options: &[&str]| {
        let output = filter(options).output().unwrap();
        (output.status.code(), output.stdout.len(), text(&output.stderr))
    };
    for (files, printed) in [([&le, &be], 10), ([&plain, &le], 2), ([&be, &plain], 10)] {
        let (code, bytes, errors) = said(&files.map(|file| &**file));
        assert_eq!((code, bytes), (Some(3), printed), "{errors}");
        assert!(files.iter().all(|file| errors.contains(&**file)) && errors.contains("iconv -f UTF-16"), "{errors}");
    }
    assert_eq!(said(&[&empty, &le, &empty, &le]).0, Some(0));
    let (code, _, errors) = said(&["--state", state, &le]);
    assert!(code == Some(2) && errors.contains("--state") && errors.contains("iconv -f UTF-16LE"), "{errors}");
    // Without a mark, from pipes and files; a cut or damaged one; and what nobody has.
    let ascii = "a line of some length\nand another one\n".repeat(5);
    let russian = "\u{411}\u{43e}\u{43b}\u{44c}\u{448}\u{43e}\u{439}, 17 \u{434}\u{43d}\u{435}\u{439}\r\n".repeat(5);
    for encoded in UTF16 {
        for input in [&ascii, &russian] {
            let input = &utf16(input, encoded)[2..];
            for (input, options) in [(input, &CSV[..]), (input, &["--field", "1"]), (&gzip(input), &[])] {
                let output = run(filter(options), input);
                let (code, errors) = code_and_errors(&output);
                assert!(code == Some(1) && output.stdout.is_empty(), "{code:?} {errors}");
                assert!(errors.contains("it seems to be UTF-16") && errors.contains("iconv -f UTF-16"), "{errors}");
            }
        }
        let whole = utf16("a\nb\nc", encoded);
        let unpaired = [&whole[..], &encoded(0xd83d), &encoded(0x61), &encoded(0x62)].concat();
        for (input, why) in [
            (&whole[..whole.len() - 1], "it ends within a character"),
            (&[&whole[..], &encoded(0xd83d)].concat(), "it ends within a character"),
            (&unpaired, "from offset 12 on it is no UTF-16"),
        ] {
            let (code, errors) = code_and_errors(&run(filter(&[]), input));
            assert!(code == Some(1) && errors.contains(why), "{why}: {code:?} {errors}");
        }
    }
    for mark in [&b"\xff\xfe\0\0"[..], b"\0\0\xfe\xff"] {
        let (code, errors) = code_and_errors(&run(filter(&[]), mark));
        assert!(code == Some(1) && errors.contains("UTF-32"), "{code:?} {errors}");
    }
    // Zeros alone make no UTF-16.
    let odd = b"a\0b\na\0c\n\0\n\0\0\n";
    is_printed(&[], odd, odd);
}

#[test]
fn counts_of_utf16_are_text() {
    let directory = Directory::new("utf16-count");
    let counts = directory.0.join("counts");
    let input = utf16("\u{fc}\nb\n\u{fc}\n", u16::to_le_bytes);
    let command = filter(&["--count", counts.to_str().unwrap()]);
    prints(command, &input, &utf16("\u{fc}\nb\n", u16::to_le_bytes), "--count");
    assert_eq!(std::fs::read_to_string(counts).unwrap(), "repeated\tat_least\tid\n1\t1\t\u{fc}\n");
}

#[test]
fn archives_are_refused_with_the_command_that_unpacks_them() {
    let directory = Directory::new("archives");
    for (beginning, kind, command) in [
        (&b"PK\x03\x04\x14\0"[..], "zip", "unzip -p FILE | hapax filter"),
        (b"PK\x05\x06\0\0", "zip", "unzip -p FILE | hapax filter"),
        (b"\xfd7zXZ\0\0", "xz", "xz -dc FILE | hapax filter"),
        (b"BZh91AY&SY", "bzip2", "bzip2 -dc FILE | hapax filter"),
    ] {
        // Names do not count.
        for name in ["in", "in.csv.gz"] {
            let file = directory.file(name, beginning);
            let (code, errors) = code_and_errors(&filter(&[&file]).output().unwrap());
            let expected =
                format!("hapax: {file}: it is compressed with {kind}, which is not read here: `{command} …`");
            assert!(code == Some(1) && errors.starts_with(&expected), "{code:?} {errors}");
        }
    }
    for name in ["text.gz", "text.zst", "text.zip"] {
        prints(filter(&[&directory.file(name, b"PK\na\nPK\n")]), b"", b"PK\na\n", name);
    }
    prints(filter(&[&directory.file("packed.txt", &gzip(b"a\na\n"))]), b"", b"a\n", "gzip without its name");
}

#[test]
fn a_blank_line_is_a_line_where_the_id_is_the_line() {
    let input = b"a\n\nb\n  \n\na\n\r\n  \n";
    for (options, expected) in [
        (&[][..], "a\n\nb\n  \n"),
        (&["--blank", "once"], "a\n\nb\n  \n"),
        (&["--blank", "pass"], "a\n\nb\n  \n\n\r\n  \n"),
        (&["--blank", "drop"], "a\nb\n"),
        (&["--duplicates"], "\na\n\r\n  \n"),
        (&["--blank", "drop", "--duplicates"], "a\n"),
    ] {
        is_printed(options, input, expected.as_bytes());
    }
    let state = State::new("blank");
    assert_eq!([state.lines(&[], "a\n\n"), state.lines(&[], "\nb\n\n")], ["a\n\n", "b\n"]);
    let directory = Directory::new("blank");
    let counts = directory.0.join("counts");
    prints(filter(&["--count", counts.to_str().unwrap()]), b"\n\n\na\n", b"\na\n", "--count");
    assert_eq!(std::fs::read_to_string(counts).unwrap(), "repeated\tat_least\tid\n2\t2\t\n");
    // Where an id is taken out of a line, it is missing.
    let (code, errors) = code_and_errors(&run(filter(&["--field", "1"]), b"a\n\nb\n"));
    assert!(code == Some(3) && errors.contains("line 2: the id is missing or blank (see --missing)"), "{errors}");
    for (options, named) in [(&["--blank", "pass", "--field", "1"][..], "--blank"), (&["--missing", "drop"], "--field")]
    {
        let (code, errors) = code_and_errors(&run(filter(options), b"a\n"));
        assert!(code == Some(2) && errors.contains(named), "{options:?}: {code:?} {errors}");
    }
}

#[test]
fn records_are_not_torn_whatever_the_id_is() {
    let directory = Directory::new("records");
    let csv = "a,\"x\ny\"\nb,\"z\ny\"\r\na,\"x\ny\"\ny\"\n\"a\",\"x\ny\"\n\"b\",\"z\ny\"\n\n\"y\"\"\"\n\n";
    // Ids are values, also of whole records, and what is printed is the record as it was.
    let expected = "a,\"x\ny\"\nb,\"z\ny\"\r\ny\"\n\n";
    is_printed(&CSV, csv.as_bytes(), expected.as_bytes());
    is_printed(&["--quote", "'"], b"'a\nb'\na\nb'\n'a\nb'\n", b"'a\nb'\na\nb'\n");
    // `\"a,b\",c` is not `a,\"b,c\"`, and text like another record is a field.
    is_printed(&CSV, b"\"a,b\",c\na,\"b,c\"\na,b,c\n\"a,b,c\"\n", b"\"a,b\",c\na,\"b,c\"\na,b,c\n\"a,b,c\"\n");
    for name in ["in.csv", "in.CSV", "in.csv.gz", "in.csv.zst"] {
        let content = match name {
            "in.csv.gz" => gzip(csv.as_bytes()),
            "in.csv.zst" => zstd(csv.as_bytes()),
            _ => csv.as_bytes().to_vec(),
        };
        let file = directory.file(name, &content);
        prints(filter(&[&file]), b"", expected.as_bytes(), name);
        prints(
            filter(&["--regex", "^\"?.", "--missing", "pass", &file]),
            b"",
            b"a,\"x\ny\"\nb,\"z\ny\"\r\ny\"\n\"a\",\"x\ny\"\n\"b\",\"z\ny\"\n\n\"y\"\"\"\n\n",
            name,
        );
    }
    // Lines are lines where names do not say that they are records, and where an option does.
    let lines = "a,\"x\ny\"\nb,\"z\n";
    for name in ["in.tsv", "in.txt", "in.jsonl"] {
        prints(filter(&[&directory.file(name, lines.as_bytes())]), b"", lines.as_bytes(), name);
    }
    let file = directory.file("in.csv", b"a,\"x\nx\"\na,\"x\n");
    prints(filter(&["--quote", "none", &file]), b"", b"a,\"x\nx\"\n", "--quote none");
    let (code, errors) = code_and_errors(&filter(&[&file, &directory.file("in.txt", b"")]).output().unwrap());
    assert!(code == Some(2) && errors.contains("--delimiter ,"), "{errors}");
}

#[test]
fn line_breaks_in_quotes_near_the_ends_of_blocks() {
    // A block has 256 KiB: what is near its end moves through it byte by byte.
    for before in (256 << 10) - 14..(256 << 10) + 2 {
        let first = format!("{}\n", "f".repeat(before - 1));
        let records = "1,\"a\r\n\"\"\r\nb\"\r\n2,\"\n\"\n";
        let input = [&first[..], records, records, &first, "3,\"\r\n\""].concat();
        let expected = [&first[..], records, "3,\"\r\n\"\n"].concat();
        for options in [&CSV[..], &["--delimiter", ",", "--field", "1"]] {
            let output = run(filter(options), input.as_bytes());
            assert!(output.status.success() && output.stdout == expected.as_bytes(), "{before} {options:?}");
        }
    }
}

#[test]
fn a_quote_without_its_end_is_said_with_the_line_where_it_began() {
    let directory = Directory::new("unterminated");
    let state = directory.0.join("state");
    let input = b"a,b\n1,\"x\ny\",z,\"no\nend\n2,x\n";
    for how in [&CSV[..], &["--delimiter", ",", "--field", "1"], &["--delimiter", ",", "--regex", "."]] {
        let output = run(filter(how), input);
        let (code, errors) = code_and_errors(&output);
        assert_eq!((code, &output.stdout[..]), (Some(3), &b"a,b\n"[..]), "{how:?}: {errors}");
        let expected = "standard input, line 3: field 4: a quoted field does not end";
        assert!(errors.contains(expected) && errors.contains("--quote none"), "{how:?}: {errors}");
        is_printed(&[how, &["--on-bad", "skip"]].concat(), input, b"a,b\n");
    }
    // It may grow.
    for (more, printed) in [("", "a,b\n"), ("\"\n3,c\n", "1,\"x\ny\",z,\"no\nend\n2,x\n\"\n3,c\n")] {
        let file = directory.file("in.csv", &[input, more.as_bytes()].concat());
        let output = filter(&["--state", state.to_str().unwrap(), &file]).output().unwrap();
        assert_eq!((output.status.success(), text(&output.stdout)), (!more.is_empty(), printed.to_string()));
    }
    // A lone quote within a field is text, and one behind a field's end is an error.
    is_printed(&CSV, b"a\"b,c\na\"b,c\n\"a\"\"b\",c\n", b"a\"b,c\n");
    let (code, errors) = code_and_errors(&run(filter(&CSV), b"a\n\"x\"y,1\n"));
    assert!(code == Some(3) && errors.contains("line 2: field 1: there is something between"), "{errors}");
    let (code, errors) =
        code_and_errors(&run(filter(&["--line-bytes-max", "9", "--delimiter", ","]), &[b'"'; 300_000]));
    assert!(code == Some(3) && errors.contains("line 1: it is longer than 9 B"), "{errors}");
}
