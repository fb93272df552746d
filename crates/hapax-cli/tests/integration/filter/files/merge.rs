//! Several inputs of the same time: `--merge`, and what is said without it.

use crate::filter::bytes::{gzip, zstd};
use crate::filter::inputs::{Directory, shell};
use crate::filter::state::State;
use crate::filter::{filter, said, until};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use testkit::random::Random;

const TSV: [&str; 8] = ["--field", "1", "--time-field", "2", "--time-format", "s", "--window", "10m"];

fn ran(options: &[&str], more: &[&str], files: &[String]) -> (Option<i32>, String, String) {
    said(&filter(options).args(more).args(files).output().unwrap())
}

fn stats(errors: &str) -> serde_json::Value {
    serde_json::from_str(errors.lines().last().unwrap()).unwrap_or_else(|_| panic!("{errors}"))
}

#[test]
fn two_collectors_of_one_day() {
    let directory = Directory::new("collectors");
    let tsv =
        |offset: u64| (0..1_000).map(|i| format!("ev-{i}\t{}\n", 1_795_700_000 + offset + i * 86)).collect::<String>();
    let json = |offset: u64| {
        let line = |i: u64| format!("{{\"id\":\"ev-{i}\",\"at\":{}}}\n", 1_795_700_000 + offset + i * 86);
        (0..1_000).map(line).collect::<String>()
    };
    let pointers = ["--json", "/id", "--time-json", "/at", "--time-format", "s", "--window", "10m"];
    for (options, contents) in [
        (&TSV, [0, 2].map(|offset| tsv(offset).into_bytes()).to_vec()),
        (&pointers, [0, 2, 5].map(|offset| gzip(json(offset).as_bytes())).to_vec()),
        (&pointers, vec![zstd(json(3).as_bytes()), json(0).into_bytes()]),
    ] {
        let files = (0..).zip(&contents).map(|(n, content)| directory.file(&n.to_string(), content));
        let files: Vec<_> = files.collect();
        let others = 1_000 * (files.len() as u64 - 1);
        let (code, printed, errors) = ran(options, &["--merge", "--stats", "--format=json"], &files);
        let found = |errors: &str| ["fresh", "duplicates", "late"].map(|name| stats(errors)[name].as_u64().unwrap());
        assert_eq!((code, found(&errors)), (Some(0), [1_000, others, 0]), "{errors}");
        assert_eq!((printed.lines().count(), errors.lines().count()), (1_000, 1));
        // One after the other: it is said, once, and counted.
        let (code, _, errors) = ran(options, &["--stats", "--format=json"], &files);
        let [fresh, _, late] = found(&errors);
        assert!(code == Some(0) && fresh > 1_000 && late >= others - 10, "{errors}");
        assert_eq!(errors.matches("warning").count(), 1, "{errors}");
        let second = format!("hapax: warning: {} begins 23h51m5", files[1]);
        assert!(errors.starts_with(&second) && errors.contains("--merge reads"), "{errors}");
        assert!(ran(options, &["--stats"], &files).2.contains("\n  late                      "));
    }
    // Inputs of one day after the other are as they should be.
    let files = [tsv(0), tsv(100_000)].map(|day| day.into_bytes());
    let files = [directory.file("one", &files[0]), directory.file("two", &files[1])];
    assert_eq!(ran(&TSV, &[], &files).2, "");
    assert_eq!(
        ran(&TSV, &["--allowed-lateness", "24h"], &[files[1].clone(), files[0].clone()]).2.matches("warning").count(),
        1
    );
}

/// Inputs of a random test: lines with their times, in order within a lateness.
fn inputs(random: &mut Random, lateness: u64) -> Vec<Vec<(u64, String)>> {
    let of = random.within(1, 40);
    let input = |random: &mut Random| {
        let (mut latest, mut before) = (random.within(1_000, 1_100), 0);
        let lines = (0..random.below(60)).map(|n| {
            let at = if random.percent(20) { latest - random.below(lateness + 1) } else { latest + random.below(9) };
            latest = latest.max(at);
            // Records of several lines, all kinds of ends; some have no id, and so no time.
            let id = if random.percent(5) { String::new() } else { random.below(of).to_string() };
            before = if id.is_empty() { before } else { before.max(at) };
            let note = ["x", "\"a,\nb\"", "\"\"\"\""][random.below(3) as usize];
            (before, format!("{id},{at},{note}{}", if n % 7 == 3 { "\r\n" } else { "\n" }))
        });
        lines.collect()
    };
    (0..random.within(1, 6)).map(|_| input(random)).collect()
}

#[test]
fn what_is_merged_is_what_is_sorted() {
    let directory = Directory::new("merge-random");
    for seed in 1..=testkit::long(25, 300) {
        println!("seed {seed}");
        let mut random = Random(seed);
        let lateness = random.below(2) * random.below(20);
        let inputs = inputs(&mut random, lateness);
        let header = random.percent(50);
        let head = if header { "id,at,note\n" } else { "" };
        let files: Vec<_> = (0..)
            .zip(&inputs)
            .map(|(n, lines): (u64, _)| {
                let content = head.to_string() + &lines.iter().map(|(_, line)| line.as_str()).collect::<String>();
                let content = if random.percent(30) { gzip(content.as_bytes()) } else { content.into_bytes() };
                directory.file(&n.to_string(), &content)
            })
            .collect();
        let mut all: Vec<_> = inputs.iter().flatten().collect();
        all.sort_by_key(|(at, _)| *at);
        let sorted = head.to_string() + &all.iter().map(|(_, line)| line.as_str()).collect::<String>();
        let sorted = [directory.file("sorted", sorted.as_bytes())];
        let (window, late) = (format!("{}s", random.within(1, 50)), format!("{lateness}s"));
        let mut options = vec!["--field", "1", "--delimiter", ",", "--time-field", "2", "--time-format", "s"];
        options.extend(["--window", &window, "--missing", "pass", "--allowed-lateness", &late]);
        options.extend(header.then_some("--header"));
        for more in [&[][..], &["--mark"], &["--duplicates"], &["--refused", "error"]] {
            let expected = ran(&options, more, &sorted);
            assert_eq!(ran(&options, &[more, &["--merge"]].concat(), &files), expected, "{options:?} {more:?}");
        }
        let beside = |name: &str| {
            ["--duplicates-to", "--count"].map(|option| format!("{option}={}/{name}{option}", directory.0.display()))
        };
        let [expected, merged] =
            [(beside("s"), &sorted[..], None), (beside("m"), &files, Some("--merge"))].map(|(beside, files, merge)| {
                let options: Vec<_> =
                    options.iter().copied().chain(merge).chain(beside.iter().map(String::as_str)).collect();
                assert_eq!(ran(&options, &[], files).0, Some(0));
                beside.map(|option| std::fs::read_to_string(option.split_once('=').unwrap().1).unwrap())
            });
        assert_eq!(merged, expected);
    }
}

#[test]
fn columns_are_those_of_each_input_and_come_in_the_order_of_the_first() {
    let directory = Directory::new("merge-headers");
    let options = ["--column", "id", "--time-column", "at", "--time-format", "s", "--window", "1h", "--merge"];
    let files = ["", "id,at,n\na,1,x\nb,9,x\n", "at,n,id\n2,\"y\n\",a\n5,y,c\r\n", "n,at,id\nz,7,c\nz,8,d"];
    let files = [0, 1, 2, 3].map(|n| directory.file(&format!("{n}.csv"), files[n].as_bytes()));
    let count = directory.0.join("count").to_str().unwrap().to_string();
    let expected = "id,at,n\na,1,x\nc,5,y\r\nd,8,z\nb,9,x\n";
    assert_eq!(ran(&options, &["--count", &count], &files), (Some(0), expected.to_string(), String::new()));
    assert_eq!(std::fs::read_to_string(count).unwrap(), "repeated\tat_least\tid\n1\t1\ta\n1\t1\tc\n");
    let other = [files[1].clone(), directory.file("other.csv", b"id,at,m\na,1,x\n")];
    let (code, _, errors) = ran(&options, &[], &other);
    assert!(code == Some(3) && errors.contains("(id, at, m), and the header of"), "{errors}");
    let (code, _, errors) = ran(&options, &["--header-mismatch", "pass"], &other);
    assert!(
        code == Some(3) && errors.contains("other.csv, line 1: its header") && errors.contains("--merge"),
        "{errors}"
    );
    // The same in a part of it that a run without --merge has printed.
    let state = directory.0.join("state").to_str().unwrap().to_string();
    let pass = ["--header-mismatch", "pass", "--state", &state];
    assert_eq!(ran(&options[..options.len() - 1], &pass, &other).0, Some(0));
    directory.file("other.csv", b"id,at,m\na,1,x\nf,10,x\n");
    let (code, printed, errors) = ran(&options, &pass, &other);
    assert!((code, &printed[..]) == (Some(3), "") && errors.contains("--merge prints one"), "{printed} {errors}");
    let none = [files[1].clone(), directory.file("none.csv", b"a,3,x\ne,4,x\n")];
    let (code, printed, errors) = ran(&options, &["--header-mismatch", "pass"], &none);
    assert_eq!((code, printed.as_str()), (Some(0), "id,at,n\na,1,x\ne,4,x\nb,9,x\n"), "{errors}");
    assert!(errors.contains("none.csv: it seems to have no header"), "{errors}");
}

#[test]
fn what_is_out_of_order_is_said_and_what_cannot_be_holds_nothing_up() {
    let directory = Directory::new("merge-order");
    let a = directory.file("a", b"a\t1000\nb\t1100\nc\t1070\nd\t1071\ne\t1300\n");
    let b = directory.file("b", b"x\t1000\ny\t7258118400\na\t1010\nz\t1350\n");
    let files = [a.clone(), b.clone()];
    let (code, printed, errors) = ran(&TSV, &["--merge", "--stats", "--format=json"], &files);
    assert_eq!(
        (code, printed.as_str()),
        (Some(0), "a\t1000\nx\t1000\ny\t7258118400\nb\t1100\nc\t1070\nd\t1071\ne\t1300\nz\t1350\n")
    );
    assert_eq!(errors.matches("warning").count(), 1, "once for each input: {errors}");
    assert!(errors.contains(&format!("{a}, line 3: its time is 30s earlier than one before it")), "{errors}");
    assert_eq!(["late", "refused_ahead"].map(|name| stats(&errors)[name].as_u64()), [Some(2), Some(1)]);
    assert!(!ran(&TSV, &["--merge", "--allowed-lateness", "30s"], &files).2.contains("warning"));
    // Where that is an error, it has a file and a line, and nothing behind it is printed.
    let late = ["--allowed-lateness", "29s"];
    for (files, what, before) in [
        (&files[..], format!("hapax: {b}, line 2: its time is too far ahead"), "a\t1000\nx\t1000\n"),
        (&files[..1], format!("hapax: {a}, line 3: its time is too late"), "a\t1000\nb\t1100\n"),
    ] {
        let state = State::new("merge-refused");
        let run = |more: &[&str]| {
            said(&state.filter(&TSV).args(late).args(more).arg("--merge").args(files).output().unwrap())
        };
        let (code, printed, errors) = run(&["--refused", "error"]);
        assert!(code == Some(3) && errors.contains(&what), "{errors}");
        assert_eq!(printed, before, "{errors}");
        let all = ran(&TSV, &[&late[..], &["--merge"]].concat(), files).1;
        assert_eq!(run(&[]).1, all.strip_prefix(before).unwrap());
    }
}

#[test]
fn a_state_goes_on_with_each_input_where_it_was() {
    let directory = Directory::new("merge-state");
    for seed in 1..=testkit::long(10, 100) {
        println!("seed {seed}");
        let mut random = Random(seed);
        let inputs = inputs(&mut random, 0);
        let state = State::new("merge-state");
        let options =
            ["--field", "1", "--delimiter", ",", "--time-field", "2", "--time-format", "s", "--window", "20s"];
        let compressed: Vec<_> = inputs.iter().map(|_| random.percent(30)).collect();
        let (mut printed, mut runs) = (Vec::new(), 0);
        let mut cuts = vec![1_020, 1_050, 1_100, u64::MAX];
        cuts.retain(|_| random.percent(80));
        for cut in cuts.into_iter().chain([u64::MAX]) {
            // All inputs have grown up to one time.
            let files: Vec<_> = (0..)
                .zip(inputs.iter().zip(&compressed))
                .map(|(n, (lines, compressed)): (u64, _)| {
                    let lines = lines.iter().filter(|(at, _)| *at < cut);
                    let content: String = lines.map(|(_, line)| line.as_str()).collect();
                    let path = directory.0.join(n.to_string());
                    let content = if *compressed { gzip(content.as_bytes()) } else { content.into_bytes() };
                    std::fs::write(&path, content).unwrap();
                    path
                })
                .collect();
            let mut command = state.filter(&options);
            let output = command
                .args(["--merge", "--missing", "pass", "--stats", "--format=json"])
                .args(files)
                .output()
                .unwrap();
            let (code, lines, errors) = said(&output);
            assert_eq!(
                (code, stats(&errors)["late"].as_u64(), errors.lines().count()),
                (Some(0), Some(0), 1),
                "{errors}"
            );
            printed.extend(lines.lines().map(str::to_string));
            runs += 1;
        }
        let mut all: Vec<_> = inputs.iter().flatten().collect();
        all.sort_by_key(|(at, _)| *at);
        let sorted: String = all.iter().map(|(_, line)| line.as_str()).collect();
        let sorted = [directory.file("sorted", sorted.as_bytes())];
        let expected = ran(&options, &["--missing", "pass"], &sorted).1;
        assert_eq!(printed, expected.lines().collect::<Vec<_>>(), "{runs} runs");
    }
}

#[test]
#[cfg(unix)]
fn as_many_inputs_as_files_may_be_open() {
    let directory = Directory::new("merge-many");
    (0..100).for_each(|n| drop(directory.file(&format!("f{n:02}"), format!("{}\t{}\n", n % 10, 1_000 + n).as_bytes())));
    let options = TSV.join(" ");
    let script = |most: u32| {
        format!(
            "ulimit -n {most}; \"$0\" filter {options} --merge --state s --count c --duplicates-to d --stats --format json f*"
        )
    };
    let (code, printed, errors) = said(&shell(&directory, &script(131)));
    assert_eq!((code, printed.as_str()), (Some(2), ""));
    assert!(
        errors.contains("100 inputs are read at once")
            && errors.contains("131 files")
            && errors.contains("ulimit -n 132"),
        "{errors}"
    );
    assert!(!directory.0.join("s").exists() && !directory.0.join("c").exists(), "nothing was begun");
    let (code, printed, errors) = said(&shell(&directory, &script(132)));
    assert_eq!((code, printed.lines().count()), (Some(0), 10), "{errors}");
}

#[test]
#[cfg(unix)]
fn lines_of_pipes_pass_as_soon_as_each_has_one() {
    let directory = Directory::new("merge-live");
    assert!(shell(&directory, "mkfifo p").status.success());
    let mut command = filter(&TSV);
    let mut child =
        command.args(["--merge", "-", "p"]).current_dir(&directory.0).stdin(Stdio::piped()).spawn().unwrap();
    let (mut first, mut printed) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    // An input is opened when the one before it has a line.
    first.write_all(b"a\t1000\nb\t1020\n").unwrap();
    let mut second = std::fs::File::options().write(true).open(directory.0.join("p")).unwrap();
    second.write_all(b"a\t1001\nc\t1010\n").unwrap();
    let mut line = || {
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        line
    };
    assert_eq!([line(), line()], ["a\t1000\n", "c\t1010\n"]);
    drop(second);
    assert_eq!(line(), "b\t1020\n");
    drop(first);
    until("it ends", || child.try_wait().unwrap().is_some());
    assert_eq!(line(), "");
}

#[test]
fn options_that_contradict_are_refused() {
    for (options, why) in [
        (&["--merge"][..], "--window"),
        (&["--merge", "--window", "1h"], "--time-field"),
        (&["--merge", "--time-field", "1", "--window", "1h", "--spill", "."], "--spill"),
        (&["--merge", "--time-field", "1", "--window", "1h", "-", "/dev/stdin"], "standard input is named twice"),
    ] {
        let (code, _, errors) = said(&filter(options).output().unwrap());
        assert!(code == Some(2) && errors.contains(why), "{options:?} {errors}");
    }
}
