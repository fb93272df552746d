//! Where a report goes.

use crate::failure::Failure;
use hapax::measure::Report;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Where results go")]
pub struct OutputArgs {
    /// Keep the report, for --from
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Measure nothing; take this report
    #[arg(long, value_name = "REPORT.json")]
    pub from: Option<PathBuf>,
}

impl OutputArgs {
    /// Finds out what would fail, before anything is measured.
    pub fn check(&self) -> Result<(), Failure> {
        self.from.as_ref().map_or(Ok(()), |path| read(path).map(drop))
    }
}

/// Reads a report that was kept.
pub fn read(path: &Path) -> Result<Report, Failure> {
    let text = std::fs::read(path).map_err(|error| Failure::input(path, error))?;
    serde_json::from_slice(&text).map_err(|error| Failure::input(path, error))
}

/// Writes all outputs.
pub fn write(report: &Report, args: &OutputArgs) -> Result<(), Failure> {
    if let Some(path) = &args.save {
        let json = serde_json::to_vec(report).map_err(|error| Failure::Io(error.to_string()))?;
        std::fs::write(path, json).map_err(|error| Failure::input(path, error))?;
    }
    Ok(())
}
