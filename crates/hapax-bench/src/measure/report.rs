//! All results, with the information that it takes to reproduce them.

use super::{Measurement, Setting};
use crate::strategy::{Absent, Failure, Sort};
use serde::{Deserialize, Serialize};

/// The result of a comparison. This is what is kept as JSON; all pages are made from it.
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

    /// Returns the report as JSON, for [`Report::from_json`].
    ///
    /// # Errors
    ///
    /// If a path in it is not text.
    pub fn to_json(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// Reads a report that was kept.
    ///
    /// # Errors
    ///
    /// If it is not a report, or has a format that this version does not know.
    pub fn from_json(text: &str) -> Result<Report, Failure> {
        /// The part that all formats have in common.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let unreadable = |error: serde_json::Error| format!("not a report: {error}");
        let Head { format } = serde_json::from_str(text).map_err(unreadable)?;
        if format != Self::FORMAT {
            let (whose, ours) = (if format > Self::FORMAT { "a newer" } else { "another" }, Self::FORMAT);
            let found = format!("a report of format {format}, written by {whose} version of hapax");
            return Err(format!("{found}; this one reads {ours}").into());
        }
        Ok(serde_json::from_str(text).map_err(unreadable)?)
    }
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
