//! Where a report goes.

use crate::failure::Failure;
use hapax::measure::Report;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What comes of it")]
pub struct OutputArgs {
    /// Keep everything that was measured in this file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// Writes all outputs.
pub fn write(report: &Report, args: &OutputArgs) -> Result<(), Failure> {
    if let Some(path) = &args.save {
        let json = serde_json::to_vec(report).map_err(|error| Failure::Io(error.to_string()))?;
        std::fs::write(path, json).map_err(|error| Failure::input(path, error))?;
    }
    Ok(())
}
