//! Several inputs whose headers differ, or of which some have none.

use crate::filter::bytes::gzip;
use crate::filter::inputs::{Directory, shell};
use crate::filter::{code_and_errors, filter, said};
use std::process::Command;

const H1: &str = "id,name\n1,a\n2,b\n";
const ID: [&str; 2] = ["--column", "id"];
const FIELD: [&str; 3] = ["--header", "--field", "1"];

/// A directory with these files, in which the command runs.
struct Files(Directory, Vec<String>);

impl Files {
    fn new(contents: &[&str]) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let directory = Directory::new(&format!("headers-{number}"));
        let names = (1..).zip(contents).map(|(n, content)| {
            directory.file(&format!("h{n}.csv"), content.as_bytes());
            format!("h{n}.csv")
        });
        let names = names.collect();
        Files(directory, names)
    }

    fn filter(&self, options: &[&str]) -> Command {
        let mut command = filter(options);
        command.args(&self.1).current_dir(&self.0.0);
        command
    }

    /// Returns the exit code, the output, and the messages.
    fn said(&self, options: &[&str]) -> (Option<i32>, String, String) {
        said(&self.filter(options).output().unwrap())
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.0.join(name)).unwrap()
    }
}

#[test]
fn columns_are_brought_into_the_order_of_the_first_header() {
    for (options, second, expected) in [
        (&ID[..], "name,id\nc,1\nd,3\n", "3,d\n"),
        (&FIELD, "name,id\nc,1\nd,3\n", "3,d\n"),
        // Quotes, line breaks and line ends stay as they are.
        (
            &ID,
            "\"name\",id\r\n\"x, \"\"y\"\"\",3\r\n\"1\n2\r\n\",4\r\n,5",
            "3,\"x, \"\"y\"\"\"\r\n4,\"1\n2\r\n\"\r\n5,\n",
        ),
        (&ID, "\u{feff}name,id\nd,\"3\"\ne,3\n", "\"3\",d\n"),
        (&["--column", "id,name"], "name,id\na,1\nb,1\na,2", "1,b\n2,a\n"),
        // Nothing to do.
        (&ID, "\"id\",name\n1,c\n3,d\n", "3,d\n"),
        (&ID, "", ""),
        (&["--column", "id", "--missing", "pass"], "name,id\n\nd,\nd,3\n", "\n,d\n3,d\n"),
        (&["--column", "id", "--on-bad", "skip"], "name,id\nd\nd,3,x\n\"d\"x,3\nd,3\n", "3,d\n"),
    ] {
        let files = Files::new(&[H1, second, "name,id\nz,9\n"]);
        let whole = format!("{H1}{expected}9,z\n");
        assert_eq!(files.said(options), (Some(0), whole.clone(), String::new()), "{options:?} {second:?}");
        let spilled = [options, &["--spill", "."]].concat();
        assert_eq!(files.said(&spilled), (Some(0), whole.clone(), String::new()), "{options:?} {second:?}");
        std::fs::write(files.0.0.join("h2.csv"), gzip(second.as_bytes())).unwrap();
        assert_eq!(files.said(options), (Some(0), whole, String::new()), "{options:?} {second:?}");
    }
}

#[test]
fn what_is_printed_beside_has_the_same_order() {
    let files = Files::new(&[H1, "name,id\nc,1\nd,3\nd,3\n"]);
    assert_eq!(files.said(&["--column", "id", "--duplicates-to", "d", "--count", "c"]).0, Some(0));
    assert_eq!(files.read("d"), "id,name\n1,c\n3,d\n");
    assert_eq!(files.read("c"), "repeated\tat_least\tid\n1\t1\t1\n1\t1\t3\n");
    let (_, marked, _) = files.said(&["--header", "--field", "1", "--mark"]);
    assert!(marked.ends_with("duplicate:window,1,c\nfresh:window,3,d\nduplicate:window,3,d\n"), "{marked}");
    assert_eq!(files.said(&["--column", "id", "--duplicates"]).1, "id,name\n1,c\n3,d\n");
}

#[test]
fn other_columns_are_refused_and_both_headers_named() {
    let tab = ["--column", "id", "--delimiter", "\t"];
    for (options, second, why) in [
        (
            &ID[..],
            "id,name,extra\n7,g,x\n",
            "line 1: its header is another one: it is (id, name, extra), and the header of h1.csv is (id, name) (",
        ),
        (
            &FIELD,
            "5,e\n6,f\n",
            "line 1: it seems to have no header: its first line is (5, e), and the header of h1.csv is (id, name) (",
        ),
        (&ID, "5,e\n6,f\n", "it seems to have no header"),
        (
            &["--column", "id", "--header-mismatch", "error"],
            "name,id\nc,1\n",
            "its header is another one: it is (name, id), and the header of h1.csv is (id, name) (see --header-mismatch",
        ),
        (&["--column", "id", "--header-mismatch", "error"], "5,e\n", "it seems to have no header"),
        (&ID, "name,id\nc\n", "line 2: it has not as many fields as the header, 2"),
        (&ID, "name,id\nc,\"1\n", "line 2: field 2: a quoted field does not end"),
    ] {
        let files = Files::new(&[H1, second]);
        for how in [&[][..], &["--spill", "."], &["--state", "s"]] {
            let (code, printed, said) = files.said(&[options, how].concat());
            assert_eq!(code, Some(3), "{options:?} {second:?} {said}");
            assert!(said.starts_with("hapax: h2.csv, ") && said.contains(why), "{said}");
            assert_eq!(printed, if how.contains(&"--spill") { "" } else { H1 });
        }
    }
    let files = Files::new(&[&H1.replace(',', "\t")]);
    let (code, _, said) = files.said(&[&tab[..], &["--header-mismatch", "x"]].concat());
    assert!(code == Some(2) && said.contains("align, error, pass"), "{said}");
    let (code, _, said) = files.said(&["--field", "1", "--header-mismatch", "pass"]);
    assert!(code == Some(2) && said.contains("--header"), "{said}");
    // Of an array the first element would be one.
    let (code, _, said) = files.said(&["--json", "/id", "--header"]);
    assert!(code == Some(2) && said.contains("--header") && said.contains("--json"), "{said}");
}

#[test]
fn no_row_is_lost_where_all_passes() {
    for (options, others, expected, said) in [
        // Without a header: the columns are where they were.
        (
            &ID[..],
            ["5,e\n1,c\n", "6,f\n"],
            "5,e\n6,f\n",
            "hapax: h2.csv: it seems to have no header: its first line, taken for a record, is (5, e)",
        ),
        (&FIELD, ["5,e\n1,c\n", "2,f\n"], "5,e\n", "hapax: h3.csv: it seems to"),
        // With others: each is printed, and its own columns are found by name.
        (&ID, ["name,id\nc,1\nd,3\n", "x,id,y\n7,3,7\n7,4,7\n"], "name,id\nd,3\nx,id,y\n7,4,7\n", ""),
        (&ID, ["x,id\nd,3\n", "x,id\ne,4\n"], "x,id\nd,3\ne,4\n", ""),
        (
            &ID,
            ["x,id\nd,3\n", "y,5\n"],
            "x,id\nd,3\ny,5\n",
            "hapax: h3.csv: it seems to have no header: its first line, taken for a record, is (y, 5), and the header of h2.csv is (x, id)",
        ),
        // Fields have no names that could tell.
        (&FIELD, ["id,name,x\n7,g,x\n", "id,name\n8,h\n"], "id,name,x\n7,g,x\n8,h\n", "hapax: h2.csv: it seems"),
        (&FIELD, ["name,id\n7,g\n", "id,name\n8,h\n"], "name,id\n7,g\nid,name\n8,h\n", ""),
        (&["--header"], ["name,id\n7,g\n", "id,name\n2,b\n"], "name,id\n7,g\nid,name\n", ""),
    ] {
        let files = Files::new(&[H1, others[0], others[1]]);
        for how in [&[][..], &["--spill", "."], &["--state", "s"]] {
            let (code, printed, told) = files.said(&[options, &["--header-mismatch", "pass"], how].concat());
            assert_eq!((code, printed), (Some(0), format!("{H1}{expected}")), "{told}");
            assert!(told.contains(said) && told.is_empty() == said.is_empty(), "{told}");
            assert!(told.matches("h2.csv: it").count() <= 1, "it is said once: {told}");
        }
    }
    let files = Files::new(&[H1, "name,id\nc,1\nd,3\nd,3\n"]);
    let pass = ["--column", "id", "--header-mismatch", "pass"];
    let (_, marked, _) = files.said(&[&pass[..], &["--mark", "--count", "c"]].concat());
    assert!(marked.ends_with("verdict,name,id\nduplicate:window,c,1\nfresh:window,d,3\nduplicate:window,d,3\n"));
    assert_eq!(files.read("c"), "repeated\tat_least\tid\n1\t1\t1\n1\t1\t3\n");
    assert_eq!(files.said(&[&pass[..], &["--duplicates"]].concat()).1, "id,name\nname,id\nc,1\nd,3\n");
}

#[test]
#[cfg(unix)]
fn the_header_of_an_earlier_run_is_the_first() {
    let files = Files::new(&[H1, "name,id\nc,1\nd,3\n", "id,name,x\n7,g,x\n"]);
    let run = |script: &str| {
        let output = shell(&files.0, &format!("\"$0\" filter --state s --column id --duplicates-to d {script}"));
        code_and_errors(&output)
    };
    assert_eq!(run("h1.csv >> out"), (Some(0), String::new()));
    assert_eq!(run("h2.csv --count c >> out"), (Some(0), String::new()));
    assert_eq!((files.read("out"), files.read("d")), (format!("{H1}3,d\n"), "id,name\n1,c\n".to_string()));
    assert_eq!(files.read("c"), "repeated\tat_least\tid\n1\t1\t1\n");
    let (code, said) = run("h3.csv >> out");
    assert!(code == Some(3) && said.contains("the header of an earlier run's output is (id, name)"), "{said}");
    files.0.file("h2.csv", b"name,id\nc,1\nd,3\ne,4\nf,1\n");
    assert_eq!(run("h2.csv h1.csv >> out"), (Some(0), String::new()));
    assert_eq!((files.read("out"), files.read("d")), (format!("{H1}3,d\n4,e\n"), "id,name\n1,c\n1,f\n".to_string()));
    // A new output, beside one that goes on.
    files.0.file("h2.csv", b"name,id\nc,1\nd,3\ne,4\nf,1\ng,5\n");
    assert_eq!(run("h2.csv > new"), (Some(0), String::new()));
    assert_eq!(files.read("new"), "id,name\n5,g\n");
    assert_eq!(run("h3.csv --header-mismatch pass >> new"), (Some(0), String::new()));
    files.0.file("h1.csv", format!("{H1}8,h\n").as_bytes());
    assert_eq!(run("h1.csv h3.csv --header-mismatch pass >> new"), (Some(0), String::new()));
    assert_eq!(files.read("new"), "id,name\n5,g\nid,name,x\n7,g,x\nid,name\n8,h\n");
}

#[test]
#[cfg(unix)]
fn a_refused_header_of_a_long_file_is_read_again() {
    let rows: String = (0..20_000).map(|i| format!("{i},e\n")).collect();
    let files = Files::new(&[H1, &rows]);
    let options = ["--column", "id", "--state", "s"];
    assert_eq!(files.said(&options).0, Some(3));
    let (code, printed, _) = files.said(&[&options[..], &["--header-mismatch", "pass"]].concat());
    assert_eq!((code, printed.lines().count(), printed.lines().next()), (Some(0), 19_999, Some("id,name")));
}

#[test]
fn a_header_is_not_lost_where_all_behind_it_was_printed() {
    // The record without an end is read by itself.
    let files = Files::new(&["id,n\n1,a", "id,n\n2,b\n"]);
    let options = ["--column", "id", "--state", "s"];
    assert_eq!(files.said(&options).1, "id,n\n1,a\n2,b\n");
    files.0.file("h2.csv", b"id,n\n2,b\n3,c\n");
    assert_eq!(files.said(&options).1, "id,n\n3,c\n", "a pipe is another output");
}

/// A state's records are limited to 64 KiB each, and a header is not.
#[test]
#[cfg(unix)]
fn a_header_may_have_thousands_of_columns_across_runs() {
    let columns: Vec<_> = (0..9_000).map(|i| format!("column_{i:08}")).collect();
    let backwards: Vec<_> = columns.iter().rev().cloned().collect();
    let file =
        |columns: &[String]| format!("{}\n{}\n", columns.join(","), columns.join(",").replace("column", "value"));
    let files = Files::new(&[&file(&columns), &file(&backwards).replace("value_00000000", "another")]);
    let run = |file: &str| {
        let run = format!("\"$0\" filter --column column_00000000 --state s {file} >> out");
        let output = shell(&files.0, &run);
        assert!(output.status.success(), "{output:?}");
    };
    run("h1.csv");
    run("h1.csv");
    run("h2.csv");
    let row = |first: &str| file(&columns).lines().nth(1).unwrap().replace("value_00000000", first) + "\n";
    assert_eq!(files.read("out"), file(&columns) + &row("another"));
}
