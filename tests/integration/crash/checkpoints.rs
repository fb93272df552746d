//! A consumer of a log that takes checkpoints, and is killed at any moment: every message is
//! handled at least once, and none twice that lies before a checkpoint.
//!
//! The log is computed from offsets, one message in four a repetition of an earlier one. The
//! consumer, this program once more, writes each message that it handles to a file, with the
//! checkpoint that it went on from.

use super::process::{Child, Life};
use super::{seed, times};
use hapax::{Dedup, Int, JournalOptions};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::directory::Directory;
use testkit::long;
use testkit::random::Random;

const DIRECTORY: &str = "HAPAX_CHECKPOINTS_DIRECTORY";
const LIFE: Life = Life { from_start: 60_000, from_report: 30_000, progress: 2_000 };

const SOURCE: &str = "log";

/// Returns the id of the message at an offset.
fn id_at(offset: u64) -> u64 {
    let random = hapax::seam::random::mix(offset);
    match random % 4 {
        0 if offset > 0 => id_at(offset - 1 - (random >> 8) % offset.min(5_000)),
        _ => offset,
    }
}

fn open(path: &Path) -> Dedup {
    let options = JournalOptions::new()
        .checkpoints(true)
        .segment_length(Duration::from_millis(40))
        .commit_interval(Duration::from_millis(1));
    let builder = Dedup::builder().window(Duration::from_secs(24 * 3600)).capacity(2_000_000);
    builder.journal(path.join("journal"), options).build().unwrap()
}

fn position(dedup: &Dedup) -> u64 {
    let positions = dedup.journal().unwrap().positions().unwrap();
    positions.first().map_or(0, |(_, position)| u64::from_be_bytes(position[..].try_into().unwrap()))
}

/// Consumes the log from the last checkpoint on, forever.
pub fn run_if_asked() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let path = PathBuf::from(path);
    let dedup = open(&path);
    let mut output = std::io::stdout();
    let mut effects = std::fs::File::options().append(true).create(true).open(path.join("effects")).unwrap();
    let start = position(&dedup);
    // The last line may be cut off.
    effects.write_all(b"\n").unwrap();
    let (mut next, mut verdicts) = (start, Vec::new());
    for batch in 0_u64.. {
        let offsets = next..next + 1 + batch * 37 % 300;
        dedup.check_batch(offsets.clone().map(|offset| Int::from(id_at(offset))), &mut verdicts);
        let fresh = offsets.clone().zip(&verdicts).filter(|(_, verdict)| verdict.is_fresh());
        let lines: String = fresh.map(|(offset, _)| format!("{start} {offset}.\n")).collect();
        effects.write_all(lines.as_bytes()).unwrap();
        next = offsets.end;
        match batch % 5 {
            // Not every batch: a crash takes back several.
            0 | 1 => {}
            2 => drop(dedup.journal().unwrap().checkpoint([(SOURCE, next.to_be_bytes())]).unwrap()),
            _ => {
                dedup.journal().unwrap().checkpoint([(SOURCE, next.to_be_bytes())]).unwrap();
                dedup.journal().unwrap().flush().unwrap();
                writeln!(output, "durable {next}.").unwrap();
            }
        }
    }
}

#[test]
fn consumers_that_are_killed_handle_every_message_and_none_again_that_lies_before_a_checkpoint() {
    let kills = times("HAPAX_CHECKPOINT_KILLS", long(16, 60));
    let seed = seed();
    println!("HAPAX_CRASH_SEED={seed} HAPAX_CHECKPOINT_KILLS={kills}");
    let mut random = Random(seed);
    let directory = Directory::new("checkpoints");
    let path = directory.path();
    let (mut waited, mut came_to) = (0, 0);
    for kill in 0..kills {
        let mut child = Child::start([(DIRECTORY, path.display().to_string())]);
        waited += u64::from(child.let_it_run(&mut random, &LIFE));
        let acknowledged = child.kill();
        let is_at = position(&open(path));
        let least = acknowledged.max(came_to);
        assert!(is_at >= least, "kill {kill}: back at {is_at}, before checkpoint {least}");
        came_to = is_at;
    }
    // A consumer has handled 226 messages when it reports for the first time.
    assert!(waited > 0 && came_to >= 226 * waited, "{waited} consumers came to {came_to} only");
    judge(path, came_to);
}

/// Judges the effects of all consumers, given the last checkpoint.
fn judge(path: &Path, came_to: u64) {
    let text = std::fs::read(path.join("effects")).unwrap();
    let text = String::from_utf8(text).unwrap();
    // The checkpoint from which each id was handled, and the offset.
    let mut handled: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    // (The point tells a line from one that is cut off.)
    for line in text.lines().filter_map(|line| line.strip_suffix('.')) {
        let (start, offset) = line.split_once(' ').unwrap();
        let (start, offset): (u64, u64) = (start.parse().unwrap(), offset.parse().unwrap());
        assert!(offset >= start, "a consumer that went on from {start} has handled {offset}");
        handled.entry(id_at(offset)).or_default().push((start, offset));
    }
    for offset in 0..came_to {
        assert!(handled.contains_key(&id_at(offset)), "message {offset} lies before checkpoint {came_to}: not handled");
    }
    let mut again = 0;
    for (id, times) in &handled {
        again += times.len() - 1;
        for (start, offset) in times {
            // The id of a message is the offset at which it came first.
            assert!(id >= start, "{id} lies before checkpoint {start}, and was handled again at {offset}");
        }
    }
    println!("{} messages, {again} of them again after a crash", handled.len());
}
