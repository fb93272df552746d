//! `--state` at the worst moments: writers are killed, asked to end, and left by their readers,
//! again and again until they are done.
//!
//! In each case no line is missing, none is glued to another, and a run repeats nothing but the
//! last lines of the run before. `HAPAX_FILTER_KILLS` says how many kills; `HAPAX_SEED` repeats a
//! run.

use crate::filter::inputs::Directory;
use crate::filter::state::State;
use crate::filter::{filter, send};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::Duration;
use testkit::random::Random;

/// The arguments of a run, and the lines that all runs together should print.
struct Scenario {
    args: Vec<String>,
    name: String,
    /// The number of each line that is to be printed, in order.
    expected: HashMap<String, usize>,
    to_file: bool,
}

/// The way in which a run is ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Killed,
    Asked(i32),
    Left,
    Itself,
}

/// The counts of all runs together.
#[derive(Debug, Default)]
struct Counts {
    killed: u64,
    asked: u64,
    left: u64,
    scenarios: u64,
    repeated: u64,
}

impl Counts {
    fn ended(&mut self, end: End) {
        match end {
            End::Killed => self.killed += 1,
            End::Asked(_) => self.asked += 1,
            End::Left => self.left += 1,
            End::Itself => {}
        }
    }

    fn kills(&self) -> u64 {
        self.killed + self.asked + self.left
    }
}

/// Makes lines with ids that come again, sooner and later, and with times.
fn content(random: &mut Random, lines: u64, padding: usize) -> String {
    let mut text = String::new();
    let mut seconds = 1_000_000;
    for line in 0..lines {
        let id = if random.percent(70) { line } else { random.below(line + 1) };
        seconds += u64::from(random.percent(30));
        text += &format!("{id} {seconds} {line}{}\n", ".".repeat(random.below(padding as u64 + 1) as usize));
    }
    text
}

impl Scenario {
    fn new(random: &mut Random, directory: &Directory) -> Self {
        let lines = random.within(20_000, 60_000);
        let padding = [0, 20, 200][random.below(3) as usize];
        let text = content(random, lines, padding);
        let has_header = random.percent(20);
        let text = if has_header { format!("id at line\n{text}") } else { text };
        let (kind, bytes) = match random.below(4) {
            0 => ("gzip", crate::filter::bytes::gzip(text.as_bytes())),
            _ => ("plain", text.into_bytes()),
        };
        let mut args: Vec<&str> = vec!["--field", "1", "--delimiter", " "];
        args.extend(has_header.then_some("--header"));
        let window = ["none", "100s of event time", "an hour of arrival"][random.below(3) as usize];
        match window {
            "none" => {}
            "an hour of arrival" => args.extend(["--window", "1h"]),
            _ => args.extend(["--time-field", "2", "--time-format", "s", "--window", "100s"]),
        }
        let mark = random.percent(20);
        args.extend(mark.then_some("--mark"));
        let file = directory.file(&format!("in.{kind}"), &bytes);
        let args: Vec<String> = args.into_iter().chain([&*file]).map(String::from).collect();
        let output = filter(&args.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
        assert!(output.status.success());
        let printed = String::from_utf8(output.stdout).unwrap();
        let expected: HashMap<_, _> = printed.lines().map(String::from).zip(0..).collect();
        assert_eq!(expected.len(), printed.lines().count(), "each line is there once");
        let to_file = random.percent(50);
        let name = format!(
            "{lines} lines of {kind}, window {window}, {} to print{}{}, to {}",
            expected.len(),
            if has_header { " with a header" } else { "" },
            if mark { " and marked" } else { "" },
            if to_file { "a file" } else { "a pipe" }
        );
        Scenario { args, name, expected, to_file }
    }
}

/// Draws the way in which a run is ended.
fn end_of(random: &mut Random, to_file: bool) -> End {
    match random.below(if to_file { 4 } else { 6 }) {
        0 | 1 => End::Killed,
        2 => End::Asked(libc::SIGINT),
        3 => End::Asked(libc::SIGTERM),
        _ => End::Left,
    }
}

/// Lets a run write to a file, and ends it. Returns how it has ended.
fn to_file(mut child: Child, end: End, after: Duration) -> End {
    std::thread::sleep(after);
    match end {
        End::Killed => child.kill().unwrap(),
        End::Asked(signal) => send(signal, &child),
        End::Left | End::Itself => {}
    }
    ended(&mut child, end)
}

/// Reads a run's output, slowly or not, and ends it, or closes the pipe. Returns the output, and
/// how it has ended.
fn to_pipe(random: &mut Random, mut child: Child, end: End, after: Duration) -> (Vec<u8>, End) {
    let mut stdout = child.stdout.take().unwrap();
    let enough = if end == End::Left { random.below(2_000_000) as usize } else { usize::MAX };
    let pause = Duration::from_micros([0, 0, 300][random.below(3) as usize]);
    let reader = std::thread::spawn(move || {
        let mut taken = Vec::new();
        let mut piece = [0; 16 << 10];
        while taken.len() < enough {
            let room = piece.len().min(enough - taken.len());
            match stdout.read(&mut piece[..room]).unwrap() {
                0 => break,
                read => taken.extend_from_slice(&piece[..read]),
            }
            std::thread::sleep(pause);
        }
        taken
    });
    if end != End::Left {
        std::thread::sleep(after);
        match end {
            End::Killed => child.kill().unwrap(),
            End::Asked(signal) => send(signal, &child),
            End::Left | End::Itself => {}
        }
    }
    let taken = reader.join().unwrap();
    (taken, ended(&mut child, end))
}

fn ended(child: &mut Child, end: End) -> End {
    let status = child.wait().unwrap();
    match (end, status.code()) {
        (_, Some(0)) if end != End::Left => End::Itself,
        (End::Left, Some(0)) => End::Left,
        (End::Killed, None) => End::Killed,
        (End::Asked(signal), Some(code)) if code == 128 + signal => end,
        // The signal came before its handlers were there.
        (End::Asked(signal), None) if std::os::unix::process::ExitStatusExt::signal(&status) == Some(signal) => end,
        (end, _) => panic!("{end:?}: {status}"),
    }
}

/// Checks whole lines: each must be the next expected one, or one that a run repeats, no earlier
/// than where that run's predecessor began. Returns how many were repeated.
fn judge(scenario: &Scenario, printed: &[u8]) -> u64 {
    let (mut next, mut run, mut repeated) = (0, 0, 0);
    let lines = printed.split(|byte| *byte == b'\n');
    for line in lines.map(|line| std::str::from_utf8(line).unwrap()).filter(|line| !line.is_empty()) {
        let Some(&number) = scenario.expected.get(line) else {
            panic!("{}: `{line}` is no line, or more than one", scenario.name);
        };
        if next > 0 && !scenario.to_file && line.ends_with("id at line") {
            // A new pipe gets its header.
            continue;
        }
        if number != next {
            assert!(number < next, "{}: lines {next} to {number} are missing", scenario.name);
            assert!(
                number >= run,
                "{}: line {number} is repeated, though the run before began with {run}",
                scenario.name
            );
            repeated += (next - number) as u64;
            run = number;
        }
        next = number + 1;
    }
    assert_eq!(next, scenario.expected.len(), "{}: the last lines are missing", scenario.name);
    repeated
}

fn whole_lines(taken: &[u8]) -> &[u8] {
    &taken[..taken.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)]
}

fn play(random: &mut Random, number: u64, counts: &mut Counts) {
    let directory = Directory::new(&format!("kills-{number}"));
    let state = State::new(&format!("kills-{number}"));
    let scenario = Scenario::new(random, &directory);
    let out = directory.0.join("out");
    let mut printed = Vec::new();
    let mut longest_us = 30_000;
    let mut ends = Vec::new();
    loop {
        let mut command = state.filter(&scenario.args.iter().map(String::as_str).collect::<Vec<_>>());
        command.stderr(Stdio::inherit());
        if scenario.to_file {
            command.stdout(OpenOptions::new().create(true).append(true).open(&out).unwrap());
        }
        let child = command.spawn().unwrap();
        let end = end_of(random, scenario.to_file);
        let after = Duration::from_micros(random.below(longest_us));
        // The time grows, so that it gets done one day.
        longest_us += longest_us / 20;
        let end = if scenario.to_file {
            to_file(child, end, after)
        } else {
            let (taken, end) = to_pipe(random, child, end, after);
            // A reader that goes takes half a line with it, and nobody else leaves any.
            printed.extend_from_slice(if end == End::Left { whole_lines(&taken) } else { &taken });
            end
        };
        counts.ended(end);
        ends.push(end);
        if end == End::Itself {
            break;
        }
    }
    if scenario.to_file {
        printed = std::fs::read(&out).unwrap();
    }
    let judged = std::panic::catch_unwind(|| judge(&scenario, &printed));
    if judged.is_err() {
        println!("the runs have ended so: {ends:?}");
        if std::env::var_os("HAPAX_KEEP").is_some() {
            println!("kept: {} and {}", directory.0.display(), state.0.display());
            std::process::exit(1);
        }
    }
    counts.repeated += judged.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    counts.scenarios += 1;
    // And then there is nothing left to be printed.
    let again = state.filter(&scenario.args.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
    assert_eq!(
        (again.status.code(), String::from_utf8_lossy(&again.stdout).as_ref()),
        (Some(0), ""),
        "{}",
        scenario.name
    );
}

#[test]
fn killed_asked_to_end_and_left_by_its_reader_it_misses_no_line_and_glues_none() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let kills = number("HAPAX_FILTER_KILLS").unwrap_or(testkit::long(16, 40));
    let seed = number("HAPAX_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("HAPAX_SEED={seed} HAPAX_FILTER_KILLS={kills}");
    let mut random = Random(seed);
    let mut counts = Counts::default();
    while counts.kills() < kills {
        let number = counts.scenarios;
        play(&mut random, number, &mut counts);
    }
    let Counts { killed, asked, left, scenarios, repeated } = counts;
    println!(
        "{} ends of {scenarios} inputs: {killed} killed, {asked} asked to end, {left} left by their reader; nothing missing, nothing \
         glued, {repeated} lines printed again",
        killed + asked + left
    );
}
