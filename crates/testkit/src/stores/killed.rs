//! A child, this program once more, writes as fast as it can and reports what was acknowledged. It
//! is killed, and its parent looks for all of that.

use super::*;
use crate::children;
use crate::directory::Directory;
use crate::random::seeded;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CHILD: &str = "HAPAX_STORE_CHILD";
const BATCH: u64 = 64;
/// The number of deaths after which it begins with a new store, so that the check does not take
/// ever longer.
const ROUND: u64 = 20;

pub fn kills(usual: u64) -> u64 {
    let kills = std::env::var("HAPAX_KILLS").ok();
    kills.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("HAPAX_KILLS is no number: {text}")))
}

/// A guard that kills a child which is killed anyway.
pub struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the child: the test `killed::child` of this program, which calls [`child`].
pub fn start(path: &Path, first: u64) -> Guard {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "killed::child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{first} {}", path.display()))
        .stdout(Stdio::piped());
    Guard(children::started(child))
}

/// Returns the ids of the child's batch number n.
pub fn batch(n: u64) -> Vec<String> {
    (0..BATCH).map(|i| format!("{n}/{i}")).collect()
}

/// Lets children write to a store, and checks the store after each one's death.
pub async fn kill_9<S: Store>(kills: u64, open: impl AsyncFn(&Path) -> Result<S, StoreError>) {
    let mut random = seeded();
    println!("HAPAX_KILLS={kills}");
    let (mut directory, mut next, mut have_written) = (Directory::new("killed"), 0, 0);
    let mut acknowledged: Vec<u64> = Vec::new();
    for kill in 0..kills {
        if kill % ROUND == 0 {
            (directory, next) = (Directory::new("killed"), 0);
            acknowledged.clear();
        }
        let path = directory.path().join("store");
        let mut child = start(&path, next);
        let (mut said, mut output) = (String::new(), BufReader::new(child.0.stdout.take().expect("it is a pipe")));
        // Some die before they have begun; of the others, each has written something, however slow
        // the machine is.
        while kill % 4 > 0 && !said.contains("done ") {
            assert!(output.read_line(&mut said).unwrap() > 0, "it has ended: {said}");
        }
        tokio::time::sleep(Duration::from_micros(random.below(60_000))).await;
        child.0.kill().unwrap();
        output.read_to_string(&mut said).unwrap();
        drop(child);
        // The output of libtest is on other lines; a line without an end does not count.
        let lines = said.split_inclusive('\n').filter_map(|line| line.strip_prefix("done ")?.strip_suffix('\n'));
        let done: Vec<u64> = lines.map(|n| n.parse().unwrap()).collect();
        have_written += u64::from(!done.is_empty());
        next = done.last().map_or(next, |last| last + 1) + 1_000_000;
        acknowledged.extend(&done);

        let store = open(&path).await.unwrap_or_else(|error| panic!("kill {kill}: it does not open: {error}"));
        // Everything that this child wrote, and some of what others did.
        let earlier = acknowledged.len() - done.len();
        let others = (0..20.min(earlier)).map(|_| acknowledged[random.below(earlier as u64) as usize]);
        for n in done.iter().copied().chain(others.collect::<Vec<_>>()) {
            let keys: Vec<RecordKey> = batch(n).iter().map(key).collect();
            for (key, known) in keys.iter().zip(store.look_up(&keys).await.unwrap()) {
                let known = known.unwrap_or_else(|error| panic!("kill {kill}: {key}: {error}"));
                assert!(matches!(known, Known::Completed(_)), "kill {kill}: {key} was acknowledged, and is {known:?}");
            }
        }
    }
    assert!(have_written >= kills / 2, "only {have_written} of {kills} children came to write anything");
}

/// Writes until it is killed: in turns by marks, blind records, and claims that are completed.
async fn write(store: &impl Store, first: u64) {
    let mut out = std::io::stdout();
    for n in first.. {
        let ids = batch(n);
        match n % 3 {
            0 => {
                let marks: Vec<Mark> = ids.iter().map(|id| mark_of(id, DAY)).collect();
                for marked in store.mark(&marks).await.unwrap() {
                    assert_eq!(marked.unwrap(), Marked::Fresh);
                }
            }
            1 => {
                let record =
                    |id| Record { key: key(id), retention: DAY, fingerprint: None, result: Some(b"done".into()) };
                store.record(&ids.iter().map(record).collect::<Vec<_>>()).await.unwrap();
            }
            _ => {
                let claim = |id| ClaimRequest {
                    key: key(id),
                    attempt: n,
                    lease: DAY,
                    fingerprint: None,
                    held_by: None,
                    doubt: Duration::ZERO,
                };
                let claimed = store.claim(&ids.iter().map(claim).collect::<Vec<_>>()).await.unwrap();
                let complete = |(id, claimed): (&String, _)| match claimed {
                    Ok(Claimed::Claimed { token, .. }) => {
                        Completion { hold: Hold { key: key(id), token }, retention: DAY, result: None }
                    }
                    other => panic!("{id}: {other:?}"),
                };
                let completions: Vec<_> = ids.iter().zip(claimed).map(complete).collect();
                assert!(store.complete(&completions).await.unwrap().iter().all(|held| matches!(held, Ok(Held::Done))));
            }
        }
        // One write: it is there as a whole, or not.
        out.write_all(format!("done {n}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

/// Runs the child, in a program that is one; anywhere else it does nothing.
pub fn child<S: Store>(open: impl AsyncFn(&Path) -> Result<S, StoreError>) {
    let Ok(asked) = std::env::var(CHILD) else { return };
    println!(); // libtest has begun a line
    let (first, path) = asked.split_once(' ').unwrap_or_else(|| panic!("{CHILD}={asked}"));
    let first = first.parse().unwrap();
    runtime().block_on(async { write(&open(path.as_ref()).await.unwrap(), first).await });
}
