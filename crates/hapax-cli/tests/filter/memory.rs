//! Memory grows with the number of different ids only: not with the number of lines, nor with a
//! file's size.
#![cfg(target_os = "linux")]

use crate::bytes::gzip;
use crate::filter;
use crate::inputs::{Directory, shell};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Returns the most memory that a process had, in MB, once it has ended well. (The figure of
/// `wait4` includes our own at its start.)
pub fn peak_mb(mut child: Child) -> u64 {
    let mut peak_kb = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak_kb = peak_kb.max(peak.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success() && peak_kb > 0, "{status}");
            return peak_kb / 1_000;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn peak_of(args: &[&str]) -> u64 {
    peak_mb(filter(args).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap())
}

#[test]
fn many_lines_with_few_ids_take_little() {
    let directory = Directory::new("memory");
    let one = directory.file("one", &b"x\n".repeat(8_000_000));
    let few = directory.file("few", (0..1_000_000).map(|i| format!("{}\n", i % 1_000)).collect::<String>().as_bytes());
    let empty = directory.file("empty.gz", &gzip(&b"\n".repeat(40_000_000)));
    for args in [&[&*one][..], &[&few], &["--missing", "drop", &empty], &["--window", "1h", &one]] {
        let peak = peak_of(args);
        println!("{args:?}: {peak} MB");
        assert!(peak < 96, "{args:?}: {peak} MB");
    }
}

#[test]
fn little_address_space_is_enough_to_start() {
    let directory = Directory::new("address-space");
    directory.file("one", &b"x\n".repeat(8_000_000));
    let output = shell(&directory, "ulimit -v 300000; \"$0\" filter one");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"x\n"[..]), "{output:?}");
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
    let output = filter(&[&["--stats=json"][..], &args].concat()).output().unwrap();
    let stats = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stats.contains("\"fresh\":1000000,"), "{stats}");
    // Each id comes twice, close together: half of the lines, and the margin.
    let capacity = stats.split("\"capacity\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let capacity: u64 = capacity.parse().unwrap();
    assert!((1_000_000..1_400_000).contains(&capacity), "{stats}");
}

#[test]
fn many_ids_take_what_they_take() {
    let directory = Directory::new("many-ids");
    let text: String = (0..3_000_000).map(|i| format!("{i}\n")).collect();
    let file = directory.file("many", text.as_bytes());
    // 18.5 bytes each at three quarters, and what the batches take.
    let (known, given) = (peak_of(&[&file]), peak_of(&["--capacity", "4200000", &file]));
    println!("{known} MB, {given} MB with the capacity given");
    assert!(known < given + given / 4 + 16, "{known} MB, {given} MB with the capacity given");
    // The number of lines of a pipe is not known beforehand: tables are made one after the other,
    // each larger.
    let mut child = filter(&[]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let peak = std::thread::scope(|scope| {
        // Beside the reading of its memory: on a busy machine the command has ended before that
        // begins, if it gets all of its input first.
        scope.spawn(move || std::io::Write::write_all(&mut stdin, text.as_bytes()).unwrap());
        peak_mb(child)
    });
    println!("{peak} MB from a pipe");
    assert!(peak < 3 * given, "{peak} MB");
}
