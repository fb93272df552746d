//! Memory grows with the number of different ids only: not with the number of lines, nor with a
//! file's size.
#![cfg(target_os = "linux")]

use crate::filter::bytes::gzip;
use crate::filter::inputs::{Directory, shell};
use crate::filter::{filter, text};
use std::io::Write;
use std::process::{Command, Stdio};

/// The arguments of the command that [`measures`] is to run, one a line.
const MEASURED: &str = "HAPAX_MEMORY_ARGUMENTS";
const SAYS: &str = "the most KiB of memory: ";

/// Returns the most memory that the command takes on this input, in MB.
///
/// A process's figure includes what its parent has when it starts it. So the command is started by
/// a small process of its own, this program once more, in which nothing else happens.
pub fn peak_mb(command: &Command, input: impl Into<Stdio>) -> u64 {
    let args: Vec<&str> = command.get_args().map(|arg| arg.to_str().unwrap()).collect();
    let mut small = Command::new(std::env::current_exe().unwrap());
    small.args(["--exact", "filter::memory::measures", "--nocapture", "--test-threads=1"]);
    let output = small.env(MEASURED, args.join("\n")).stdin(input).stderr(Stdio::inherit()).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{args:?}: {said}");
    let kib = said.split_once(SAYS).and_then(|(_, rest)| rest.split_whitespace().next());
    kib.expect("a figure").parse::<u64>().unwrap() * 1_024 / 1_000_000
}

/// Runs the command as the child of [`peak_mb`]; else this is no test.
#[test]
fn measures() {
    let Ok(args) = std::env::var(MEASURED) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    #[allow(clippy::zombie_processes, reason = "it is waited for below, by its number")]
    let child = command.args(args.lines()).stdout(Stdio::null()).spawn().unwrap();
    let mut status = 0;
    // SAFETY: zeros are figures.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child is ours, and was not waited for; both places are there to be written.
    let ended = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    assert!(ended == child.id() as i32 && status == 0, "{status}");
    println!("\n{SAYS}{}", usage.ru_maxrss);
}

fn peak_of(args: &[&str]) -> u64 {
    peak_mb(&filter(args), Stdio::null())
}

#[test]
fn many_lines_with_few_ids_take_little() {
    let directory = Directory::new("memory");
    let lines: usize = testkit::long(2_000_000, 8_000_000);
    let one = directory.file("one", &b"x\n".repeat(lines));
    let few = directory.file("few", (0..1_000_000).map(|i| format!("{}\n", i % 1_000)).collect::<String>().as_bytes());
    let empty = directory.file("empty.gz", &gzip(&b"\n".repeat(5 * lines)));
    for args in [&[&*one][..], &[&few], &["--blank", "drop", &empty], &["--window", "1h", &one]] {
        let peak = peak_of(args);
        println!("{args:?}: {peak} MB");
        assert!(peak < 96, "{args:?}: {peak} MB");
    }
}

#[test]
fn memory_is_constant() {
    let directory = Directory::new("address-space");
    let lines: String = (0..50_000).map(|i| format!("{i:0100}\n")).collect();
    directory.file("in", &lines.repeat(testkit::long(12, 200)).into_bytes());
    // It counts even what is never touched.
    for script in ["ulimit -v 300000; \"$0\" filter in", "ulimit -v 300000; cat in | \"$0\" filter --capacity 100000"] {
        let output = shell(&directory, script);
        assert!(output.status.success() && output.stdout == lines.as_bytes(), "{script}: {}", text(&output.stderr));
    }
}

#[test]
fn an_empty_file_and_many_small_ones_are_sampled_like_one() {
    let directory = Directory::new("many-files");
    let empty = directory.file("empty", b"");
    let line = |i: u64| format!("{}\n", i / 2);
    let files: Vec<String> = (0..40)
        .map(|file| {
            let lines = file * 50_000..(file + 1) * 50_000;
            directory.file(&file.to_string(), lines.map(line).collect::<String>().as_bytes())
        })
        .collect();
    let args: Vec<&str> = std::iter::once(&empty).chain(&files).map(|path| &**path).collect();
    let output = filter(&[&["--stats", "--format=json", "--seed", "1"][..], &args].concat()).output().unwrap();
    let stats = text(&output.stderr);
    assert!(output.status.success() && stats.contains("\"fresh\":1000000,"), "{stats}");
    // Each id comes twice, close together: half of the lines, and the margin.
    let capacity = stats.split("\"capacity\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let capacity: u64 = capacity.parse().unwrap();
    assert!((1_000_000..1_400_000).contains(&capacity), "{stats}");
}

#[test]
fn many_ids_take_what_they_take() {
    let directory = Directory::new("many-ids");
    let ids: u64 = testkit::long(1_000_000, 3_000_000);
    let text: String = (0..ids).map(|i| format!("{i}\n")).collect();
    let file = directory.file("many", text.as_bytes());
    // 21.25 bytes each at six sevenths, and what the batches take.
    let (known, given) = (peak_of(&[&file]), peak_of(&["--capacity", &(ids * 6 / 5).to_string(), &file]));
    println!("{known} MB, {given} MB with the capacity given");
    assert!(known < given + given / 4 + 16, "{known} MB, {given} MB with the capacity given");
    // The number of lines of a pipe is not known beforehand: tables are made one after the other,
    // each larger. (With the seed it is known that none of these ids is forgotten early.)
    let (read, mut write) = std::io::pipe().unwrap();
    let peak = std::thread::scope(|scope| {
        scope.spawn(move || write.write_all(text.as_bytes()).unwrap());
        peak_mb(&filter(&["--seed", "1"]), read)
    });
    println!("{peak} MB from a pipe");
    assert!(peak < 3 * given, "{peak} MB");
}
