//! The JSON form in which a report is kept.

use super::Report;
use serde::Deserialize;
use std::fmt;

impl Report {
    /// Returns the report as JSON, for [`Report::from_json`].
    ///
    /// # Errors
    ///
    /// If a path in it is not text.
    pub fn to_json(&self) -> Result<String, UnreadableReport> {
        serde_json::to_string_pretty(self).map_err(UnreadableReport::Json)
    }

    /// Reads a report that was kept.
    ///
    /// # Errors
    ///
    /// If it is not a report, or has a format that this version does not know.
    pub fn from_json(text: &str) -> Result<Report, UnreadableReport> {
        /// The part that all formats have in common.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let Head { format } = serde_json::from_str(text).map_err(UnreadableReport::Json)?;
        match format {
            Self::FORMAT => serde_json::from_str(text).map_err(UnreadableReport::Json),
            _ => Err(UnreadableReport::Format { found: format }),
        }
    }
}

/// The reason why a text is not a report.
#[derive(Debug)]
#[non_exhaustive]
pub enum UnreadableReport {
    /// Not JSON, or parts of a report are missing.
    Json(serde_json::Error),
    /// Another version has written it.
    Format {
        /// The format that it says it has.
        found: u32,
    },
}

impl fmt::Display for UnreadableReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnreadableReport::Json(error) => write!(f, "not a report: {error}"),
            UnreadableReport::Format { found } => {
                let whose = if *found > Report::FORMAT { "a newer" } else { "another" };
                write!(
                    f,
                    "a report of format {found}, written by {whose} version of hapax; this one reads {}",
                    Report::FORMAT
                )
            }
        }
    }
}

impl std::error::Error for UnreadableReport {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            UnreadableReport::Json(error) => Some(error),
            UnreadableReport::Format { .. } => None,
        }
    }
}
