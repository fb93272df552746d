//! The process that dies, and the checks after its death.

use super::process::{Child, Life};
use hapax::{Attempt, Dedup, Int, JournalOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DIRECTORY: &str = "HAPAX_CRASH_DIRECTORY";
const START: &str = "HAPAX_CRASH_START";

pub const LIFE: Life = Life { from_start: 20_000, from_report: 8_000, progress: 0 };

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

    /// Starts a child that goes on with it.
    pub fn start(&self) -> Child {
        Child::start([(DIRECTORY, self.path.display().to_string()), (START, self.next.to_string())])
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
            if dedup.journal().unwrap().flush().is_err() {
                // The power is off: nothing may be acknowledged any more.
                assert!(dedup.journal().unwrap().flush().is_err());
                std::process::exit(1);
            }
            // The point tells a line from one that is cut off.
            writeln!(output, "durable {next}.").unwrap();
        }
    }
}
