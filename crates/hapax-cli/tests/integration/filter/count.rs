//! `--count`: how often each id was repeated.

use crate::filter::inputs::{Directory, shell};
use crate::filter::state::State;
use crate::filter::{code_and_errors, filter, run, text};
use std::collections::HashMap;
use std::fs;
use testkit::random::Random;

/// Returns the counted ids, each with its number as it is printed.
fn counted(file: &str) -> Vec<(String, u64)> {
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("repeated\tat_least\tid"));
    let counted = lines.map(|line| {
        let mut columns = line.splitn(3, '\t');
        let [at_most, at_least, id] = std::array::from_fn(|_| columns.next().unwrap());
        assert_eq!(at_most, at_least, "{line}: up to 100,000 ids it is exact");
        (id.to_string(), at_most.parse().unwrap())
    });
    counted.collect()
}

#[test]
fn counts_are_those_of_brute_force_whatever_the_id() {
    let directory = Directory::new("count");
    let [file, one, two] = ["counts", "one.csv", "two.csv"].map(|name| directory.file(name, b"from an earlier run\n"));
    for seed in 1..=12_u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let of = [1, 5, 500, 100_000][random.below(4) as usize];
        let mut exact: HashMap<String, u64> = HashMap::new();
        // The columns are elsewhere in the second file.
        for (path, header) in [(&one, "id,n,line\n"), (&two, "n,line,id\n")] {
            let rows = (0..random.below(20_000)).map(|n| {
                let (id, line) = (random.below(of), random.below(2));
                *exact.entry(format!("{line}\t{id}")).or_default() += 1;
                if path == &one { format!("{id},{n},{line}\n") } else { format!("{n},{line},\"{id}\"\n") }
            });
            fs::write(path, header.to_string() + &rows.collect::<String>()).unwrap();
        }
        let output = filter(&["--column", "line,id", "--count", &file, &one, &two]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        let counted = counted(&file);
        assert!(counted.is_sorted_by(|(_, a), (_, b)| a >= b));
        // What came once was not repeated.
        exact.retain(|_, times| *times > 1);
        exact.values_mut().for_each(|times| *times -= 1);
        assert_eq!(counted.len(), exact.len());
        assert_eq!(counted.into_iter().collect::<HashMap<_, _>>(), exact);
    }
}

#[test]
fn more_ids_than_are_counted_have_bounds_and_it_is_said() {
    let directory = Directory::new("count-many");
    let file = directory.file("counts", b"");
    // 150,000 ids come twice, and 50 of them a hundred times more.
    let ids = || (0..150_000_u64).map(|i| format!("{i}\n"));
    let often = || (0..100).flat_map(|_| (0..50).map(|i| format!("{i}\n")));
    let input: String = ids().chain(often()).chain(ids()).collect();
    let output = run(filter(&["--count", &file, "--stats", "--format=json"]), input.as_bytes());
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("more than 100000 ids were repeated"), "{said}");
    let floor: u64 = said.split("at most ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((1..=2).contains(&floor), "{said}");
    let counts = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = counts.lines().skip(1).collect();
    assert!((50_000..=100_000).contains(&lines.len()), "{}", lines.len());
    for line in &lines[..50] {
        let id: u64 = line.strip_prefix("101\t101\t").unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        assert!(id < 50);
    }
    for line in &lines[50..] {
        let columns: Vec<u64> = line.split('\t').map(|column| column.parse().unwrap()).collect();
        assert!(columns[1] == 1 && (1..=1 + floor).contains(&columns[0]), "{line}");
    }
}

#[test]
fn ids_are_shown_on_one_line_beside_marks_windows_and_duplicates() {
    let directory = Directory::new("count-shown");
    let [file, duplicates] = ["counts", "duplicates"].map(|name| directory.file(name, b""));
    let input = b"x,\"a\n\tb\"\nx,\"a\n\tb\"\ny,\xff\ny,\xff\ny,\xff\nz,1\n";
    let options = ["--field", "1,2", "--delimiter", ",", "--count", &file];
    let expected = "repeated\tat_least\tid\n2\t2\ty\t\\xff\n1\t1\tx\ta\\n\\tb\n";
    for more in [&["--mark"][..], &["--duplicates"], &["--window", "1h"], &["--duplicates-to", &duplicates]] {
        let output = run(filter(&[&options[..], more].concat()), input);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), expected, "{more:?}");
    }
    // After the window it is no repetition.
    let times = ["--field", "1", "--delimiter", " ", "--time-field", "2", "--time-format", "s", "--window", "10s"];
    let output = run(filter(&[&times[..], &["--count", &file]].concat()), b"a 1000\na 1001\na 2000\na 2001\n");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "repeated\tat_least\tid\n2\t2\ta\n");
}

#[test]
fn a_run_with_a_state_counts_what_it_has_read() {
    let directory = Directory::new("count-state");
    let state = State::new("count-state");
    let file = directory.file("counts", b"");
    // More than is compared of a file: it is not read again, but for its header.
    let old: String = (0..20_000).map(|n| format!("{n},old{n}\n")).collect();
    let input = directory.file("in.csv", format!("n,id\n{old}").as_bytes());
    let run = || {
        let output = state.filter(&["--column", "id", "--count", &file]).arg(&input).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        counted(&file)
    };
    assert_eq!(run(), []);
    fs::write(&input, format!("n,id\n{old}1,old7\n2,new\n3,old7\n4,new\n5,old9\n")).unwrap();
    assert_eq!(run(), [("old7".into(), 2), ("new".into(), 1), ("old9".into(), 1)]);
}

#[test]
fn what_cannot_be_written_to_is_refused_and_left_as_it_is() {
    let directory = Directory::new("count-refused");
    let input = directory.file("lines", b"a\na\n");
    for option in ["--count", "--duplicates-to"] {
        let (code, errors) = code_and_errors(&filter(&[option, &input, &input]).output().unwrap());
        assert!(code == Some(1) && errors.contains("input file is output file"), "{errors}");
        assert_eq!(fs::read_to_string(&input).unwrap(), "a\na\n");
        let script = format!("\"$0\" filter {option} out lines > out");
        let (code, errors) = code_and_errors(&shell(&directory, &script));
        assert!(code == Some(2) && errors.contains(&format!("{option} out: it is the output")), "{errors}");
        let (code, errors) = code_and_errors(&filter(&[option, "/no/such/place", &input]).output().unwrap());
        assert!(code == Some(1) && errors.contains("/no/such/place: No such file"), "{errors}");
    }
    let (code, errors) = code_and_errors(&shell(&directory, "\"$0\" filter --count again --duplicates-to again lines"));
    assert!(code == Some(2) && errors.contains("--count again: it is the file of --duplicates-to"), "{errors}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_names_the_file_and_a_bad_line_has_counts_up_to_it() {
    let directory = Directory::new("count-ends");
    let input = directory.file("lines", b"a\na\n");
    let output = filter(&["--count", "/dev/full", &input]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "a\n".into()));
    assert!(text(&output.stderr).contains("/dev/full: No space left"), "{output:?}");
    let file = directory.file("counts", b"");
    let output = run(filter(&["--count", &file, "--field", "1"]), b"a\na\n\na\n");
    assert_eq!(output.status.code(), Some(3), "a blank line has no id");
    assert_eq!(counted(&file), [("a".to_string(), 1)]);
}
