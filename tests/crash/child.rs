//! The process that dies, and the checks after its death.

use hapax::{Attempt, Dedup, Int, JournalOptions};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testkit::random::Random;

const DIRECTORY: &str = "HAPAX_CRASH_DIRECTORY";
const START: &str = "HAPAX_CRASH_START";

/// A window longer than any campaign.
const WINDOW: Duration = Duration::from_secs(24 * 3600);

/// The most ids that a child accepts between its last acknowledgement and its death.
const IN_FLIGHT: u64 = 10_000_000;

fn open(path: &Path) -> Result<Dedup, hapax::Error> {
    // Files so short that children die while they start one.
    let options =
        JournalOptions::new().segment_length(Duration::from_millis(40)).commit_interval(Duration::from_millis(1));
    Dedup::builder().window(WINDOW).capacity(2_000_000).journal(path, options).build()
}

/// The history of a journal so far.
pub struct Journal {
    pub path: PathBuf,
    /// The next child's first id.
    next: u64,
    /// Ids that were acknowledged. (Those in between may be known or not: a child died with them.)
    durable: Vec<Range<u64>>,
}

impl Journal {
    pub fn new(path: PathBuf) -> Self {
        let _ = std::fs::remove_dir_all(&path);
        Journal { path, next: 0, durable: Vec::new() }
    }

    /// Checks the journal after the death of a child that had acknowledged the ids below
    /// `acknowledged`.
    pub fn verify(&mut self, acknowledged: u64, what: &str) {
        let dedup = open(&self.path).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(dedup.evicted_live(), 0, "{what}: the window was to have room for all");
        let is_known = |id: u64| dedup.contains(Int::from(id)).is_some();
        let acknowledged = acknowledged.max(self.next);
        self.durable.push(self.next..acknowledged);
        for id in self.durable.iter().cloned().flatten() {
            assert!(is_known(id), "{what}: {id} was acknowledged as durable, and is fresh");
        }
        let end = acknowledged + IN_FLIGHT;
        for id in end..end + 10_000 {
            assert!(!is_known(id), "{what}: {id} was never accepted, and is known");
        }
        self.next = end;
    }
}

/// A child that accepts ids.
pub struct Child {
    process: std::process::Child,
    reader: Option<JoinHandle<()>>,
    acknowledged: Arc<AtomicU64>,
}

impl Child {
    pub fn start(journal: &Journal) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env(DIRECTORY, &journal.path).env(START, journal.next.to_string());
        let mut process = command.spawn().unwrap();
        let (output, acknowledged) = (process.stdout.take().unwrap(), Arc::new(AtomicU64::new(0)));
        let latest = Arc::clone(&acknowledged);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8(line).unwrap();
                if let Some(number) = line.strip_prefix("durable ").and_then(|number| number.strip_suffix('.')) {
                    latest.store(number.parse().unwrap(), Ordering::SeqCst);
                }
            }
        });
        Child { process, reader: Some(reader), acknowledged }
    }

    /// Waits for a random time: from its start on, since it is to die while it opens the journal,
    /// too, or from its first acknowledgement on.
    pub fn let_it_run(&self, random: &mut Random) {
        let longest_micros = match random.below(2) {
            0 => 20_000,
            _ => {
                let began = Instant::now();
                while self.acknowledged() == 0 && began.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(Duration::from_micros(200));
                }
                8_000
            }
        };
        std::thread::sleep(Duration::from_micros(random.below(longest_micros)));
    }

    /// Returns the end of the ids that it has acknowledged so far, or 0.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Kills it. Returns the end of the ids that it has acknowledged.
    pub fn kill(&mut self) -> u64 {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.acknowledged()
    }
}

impl Drop for Child {
    /// Leaves no process behind when a check panics.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Accepts ids in each possible way, flushes, and reports it, forever.
pub fn run_if_asked() {
    let (Ok(path), Ok(start)) = (std::env::var(DIRECTORY), std::env::var(START)) else {
        return;
    };
    let dedup = open(Path::new(&path)).unwrap();
    let mut next: u64 = start.parse().unwrap();
    let (mut verdicts, mut attempts, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    let mut output = std::io::stdout();
    for batch in 0_u64.. {
        let ids = next..next + 1 + batch * 37 % 500;
        let all = ids.clone().map(Int::from);
        match batch % 3 {
            0 => dedup.check_batch(all, &mut verdicts),
            1 => all.for_each(|id| assert!(dedup.check(id).is_fresh())),
            _ => {
                dedup.claim_batch(all, &mut attempts);
                dedup.complete_batch(attempts.drain(..).filter_map(Attempt::claimed), &mut ended);
            }
        }
        next = ids.end;
        // Not every batch: some are written because they have waited.
        if batch % 4 != 3 {
            if dedup.flush().is_err() {
                // The power is off: nothing may be acknowledged any more.
                assert!(dedup.flush().is_err());
                std::process::exit(1);
            }
            // The point tells a line from one that is cut off.
            writeln!(output, "durable {next}.").unwrap();
        }
    }
}
