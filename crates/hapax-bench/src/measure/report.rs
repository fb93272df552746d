//! Everything that was found, with what it takes to find it again.

use super::{Measurement, Setting};
use serde::{Deserialize, Serialize};

/// What a comparison has shown. This is what is kept as JSON; tables and pictures are made from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format: [`Report::FORMAT`].
    pub format: u32,
    /// When it began, in seconds since 1970.
    pub began_unix_seconds: u64,
    /// The command that repeats it.
    pub command: String,
    /// Of all random choices.
    pub seed: u64,
    /// Where it was measured.
    pub machine: Machine,
    /// In the order in which they were measured.
    pub rows: Vec<Row>,
    /// What was not measured, and why.
    pub absent: Vec<Absent>,
    /// Whether it ended before its time, so that rows or rounds are missing.
    pub interrupted: bool,
}

impl Report {
    /// The format that this version writes.
    pub const FORMAT: u32 = 1;
}

/// Where it was measured, and with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its model.
    pub processor: String,
    /// Logical processors that this process may use.
    pub processors: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// Operating system, and whether it gives huge pages.
    pub system: String,
    /// The one that built the program.
    pub compiler: String,
    /// Versions of what was compared, servers included.
    pub libraries: Vec<Library>,
}

/// Something that was compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Library {
    /// Of a crate or a server.
    pub name: String,
    /// As it calls it.
    pub version: String,
}

/// All runs of one strategy in one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub strategy: String,
    /// What it is.
    pub sort: Sort,
    /// Under which conditions.
    pub setting: Setting,
    /// In the order of the rounds.
    pub runs: Vec<Measurement>,
    /// Runs that did not end well: what was said.
    pub failures: Vec<String>,
    /// Shares of duplicates that it may call fresh, and of new ids that it may call duplicates.
    pub may_miss: f64,
    /// See `may_miss`.
    pub may_invent: f64,
}

/// What a strategy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// What no table can beat: fetch a random line of memory, and add to it.
    Roofline,
    /// Exact, in memory, and forgets.
    Window,
    /// In memory, and may be wrong: a filter.
    Filter,
    /// Survives a crash, in this process.
    Durable,
    /// Asks a server.
    Server,
}

/// A strategy that was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    /// Its name.
    pub strategy: String,
    /// Why.
    pub reason: String,
}
