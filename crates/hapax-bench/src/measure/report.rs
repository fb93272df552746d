//! All results, with the information that it takes to reproduce them.

use super::Setting;
use crate::strategy::{Absent, Failure, Sort};
use serde::{Deserialize, Serialize};

/// The result of a comparison: the table and the page are made from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The time at which it began, in seconds since 1970.
    pub began_unix_seconds: u64,
    /// The command that repeats it.
    pub command: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The machine on which it was measured.
    pub machine: Machine,
    /// The rows, in the order in which they were measured.
    pub rows: Vec<Row>,
    /// The strategies that were not measured, with the reasons.
    pub absent: Vec<Absent>,
    /// True if it ended before its time, so that rows or rounds are missing.
    pub interrupted: bool,
}

/// A machine on which something is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of its processor.
    pub processor: String,
    /// Logical processors that this process may use.
    pub processors: usize,
    /// Operating system, and whether it gives huge pages.
    pub system: String,
}

/// All runs of one strategy in one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The strategy's name.
    pub strategy: String,
    /// Its sort.
    pub sort: Sort,
    /// The conditions.
    pub setting: Setting,
    /// The runs, in the order of the rounds.
    pub runs: Vec<Measurement>,
    /// The messages of runs that failed.
    pub failures: Vec<String>,
    /// The share of duplicates that it may call fresh.
    pub may_miss: f64,
    /// The share of new ids that it may call duplicates.
    pub may_invent: f64,
}

impl Row {
    /// Creates a row without runs: a strategy, its sort, and the wrong answers that it may give.
    pub fn new(strategy: &str, sort: Sort, setting: &Setting, may_miss: f64, may_invent: f64) -> Row {
        let (strategy, setting) = (strategy.to_string(), setting.clone());
        Row { strategy, sort, setting, runs: Vec::new(), failures: Vec::new(), may_miss, may_invent }
    }

    /// Adds the result of a run.
    pub fn add(&mut self, seen: Result<Measurement, Failure>) {
        match seen {
            Ok(seen) => self.runs.push(seen),
            Err(failure) => self.failures.push(failure.to_string()),
        }
    }
}

/// One run of a strategy in a setting, in a process of its own. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Checks that were timed.
    pub checks: u64,
    /// Wall time, from the first thread's start to the last one's end.
    pub nanos: u64,
    /// Processor time of this process in that time, all threads together; 0 where the system does
    /// not tell, if ids were due at a rate or came by the strategy's clock, since waiting takes
    /// processor time, too, and if there was work.
    pub cpu_nanos: u64,
    /// Processor time of the server that it asks, if there is one.
    pub server_cpu_nanos: Option<u64>,
    /// Memory of this process, by difference; 0 where the system does not tell. Less than 256 KiB
    /// may as well be none. If ids were due at a rate, about a MiB of it is for counting latencies.
    /// Tables leave out both.
    pub bytes: u64,
    /// Memory or disk outside the process: of a server, of a directory.
    pub beside_bytes: Option<u64>,
    /// Ids that this memory holds.
    pub held: u64,
    /// Its answers, and how many of them were wrong.
    pub answers: Answers,
    /// The latencies, if ids were due at a rate.
    pub latency: Option<Latency>,
    /// Time of the work between checks, which `nanos` leaves out.
    #[serde(default)]
    pub work_nanos: u64,
}

/// Answers, by the truth, in the timed checks and in those that were asked for afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// Checks of ids that were new.
    pub fresh: u64,
    /// Those of them that were called duplicates.
    pub invented: u64,
    /// Checks of ids that were duplicates.
    pub duplicates: u64,
    /// Those of them that were called fresh.
    pub missed: u64,
    /// Those of the missed that several threads were told at about the same time: a strategy that
    /// looks an id up and inserts it later does that.
    pub twice: u64,
}

/// The latencies of ids, in nanoseconds. Each counts from when the id was due, so a stall counts
/// for all ids that wait for its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Ids a second that were answered. If that is less than were due, the strategy fell behind,
    /// and latencies show how long that lasted rather than what the strategy can do.
    pub reached: f64,
    /// The latency that half of the ids did not exceed.
    pub p50: u64,
    /// The latency that 99 % did not exceed.
    pub p99: u64,
    /// The latency that 99.9 % did not exceed.
    pub p99_9: u64,
    /// The longest.
    pub longest: u64,
}
