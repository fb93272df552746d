//! All results, with the information that it takes to reproduce them.

use super::{Measurement, Setting};
use serde::{Deserialize, Serialize};

/// The result of a comparison. This is what is kept as JSON; tables and charts are made from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format: [`Report::FORMAT`].
    pub format: u32,
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

impl Report {
    /// The format that this version writes.
    pub const FORMAT: u32 = 1;
}

/// A machine on which something is measured, and the software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of its processor.
    pub processor: String,
    /// Logical processors that this process may use.
    pub processors: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// Operating system, and whether it gives huge pages.
    pub system: String,
    /// The compiler that built the program.
    pub compiler: String,
    /// Versions of the libraries and servers that were compared.
    pub libraries: Vec<Library>,
}

/// A library or server that was compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Library {
    /// The name of the crate or server.
    pub name: String,
    /// The version, as it reports it.
    pub version: String,
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
    /// Shares of duplicates that it may call fresh, and of new ids that it may call duplicates.
    pub may_miss: f64,
    /// The share of new ids that it may call duplicates: see `may_miss`.
    pub may_invent: f64,
}

/// The sort of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// A bound that no table can beat: fetch a random line of memory, and add to it.
    Roofline,
    /// A strategy that is exact, in memory, and forgets.
    Window,
    /// A strategy that is in memory, and may be wrong: a filter.
    Filter,
    /// A strategy that survives a crash, in this process.
    Durable,
    /// A strategy that asks a server.
    Server,
}

/// A strategy that was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    /// Its name.
    pub strategy: String,
    /// The reason.
    pub reason: String,
}
