//! The options that say how lines are read: where ids and times are, and what a bad line means.

use super::delimiter;
use super::values::{Quote, byte, line_bytes, pointer, quote};
use clap::ValueEnum;
use std::path::PathBuf;

/// The places of ids and times in lines.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("headed").args(["header", "column", "time_column"]).multiple(true)))]
pub struct LineArgs {
    #[command(flatten)]
    pub id: IdArgs,

    #[command(flatten)]
    pub time: TimeArgs,

    #[command(flatten)]
    pub format: FormatArgs,
}

impl LineArgs {
    /// Returns the same options with the delimiter that the names of the files say, if none is
    /// given and a field or a column is asked for.
    ///
    /// # Errors
    ///
    /// Names that say different delimiters.
    pub fn of_files(&self, files: &[PathBuf]) -> Result<Self, String> {
        let mut lines = self.clone();
        if lines.format.delimiter.is_none() && lines.asks_for_fields() {
            lines.format.delimiter = Some(delimiter::of_names(files)?);
        }
        Ok(lines)
    }

    fn asks_for_fields(&self) -> bool {
        let LineArgs { id, time, .. } = self;
        let of_id = !id.field.is_empty() || !id.column.is_empty();
        of_id || time.time_field.is_some() || time.time_column.is_some()
    }
}

/// The treatment of lines that do not match [`LineArgs`].
#[derive(Debug, clap::Args)]
pub struct BadLineArgs {
    /// Action for a line whose id is missing or blank
    #[arg(long, value_name = "ACTION", default_value = "error", help_heading = "Errors")]
    pub missing: Missing,

    /// Action for a line that is malformed, or too long
    #[arg(long, value_name = "ACTION", default_value = "error", help_heading = "Errors")]
    pub on_bad: OnBad,

    /// The longest line (like 4096 or 16M)
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = line_bytes,
          help_heading = "Errors")]
    pub line_bytes_max: u32,
}

/// The options of [`LineArgs`] and [`BadLineArgs`].
pub const OF_RECORDS: [&str; 16] = [
    "field",
    "column",
    "json",
    "regex",
    "time_field",
    "time_column",
    "time_json",
    "time_regex",
    "time_format",
    "delimiter",
    "quote",
    "header",
    "header_mismatch",
    "missing",
    "on_bad",
    "line_bytes_max",
];

/// The place of the id. Without any of these it is the whole line.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Place of the id")]
#[group(multiple = false)]
pub struct IdArgs {
    /// The id is this field, counted from 1; or all of these fields together
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub field: Vec<u32>,
    /// The id is the column of this name in the header; or all of these columns together (a name
    /// with a comma: by --field)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub column: Vec<String>,
    /// Lines are JSON, and the id is the string, number or boolean at this pointer (RFC 6901, like
    /// /message/id). Its type counts ("1" is not 1), and so does the way a number is written (1.0
    /// is not 1)
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    pub json: Option<String>,
    /// The id is what the group `id` of this regular expression captures, or else its first group,
    /// or else the whole match
    #[arg(long, value_name = "REGEX")]
    pub regex: Option<String>,
}

/// The place of the event's time. Without any of these, the time of arrival counts.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Place of the time (otherwise: when a line arrives)")]
pub struct TimeArgs {
    /// The time is this field, counted from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), group = "time")]
    pub time_field: Option<u32>,
    /// The time is the column of this name in the header
    #[arg(long, value_name = "NAME", group = "time")]
    pub time_column: Option<String>,
    /// Lines are JSON, and the time is at this pointer
    #[arg(long, value_name = "POINTER", value_parser = pointer, group = "time")]
    pub time_json: Option<String>,
    /// The time is what the group `time` of this regular expression captures, or else its first
    /// group, or else the whole match
    #[arg(long, value_name = "REGEX", group = "time")]
    pub time_regex: Option<String>,
    /// Format of the time: a number of units since 1970, fractions allowed, or as in RFC 3339
    #[arg(long, value_name = "FORMAT", requires = "time", default_value = "rfc3339")]
    pub time_format: TimeFormat,
}

/// The division of lines into fields.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Division of lines")]
pub struct FormatArgs {
    /// Delimiter of fields: one character, or \t; without it a comma if the files are called
    /// .csv (or .csv.gz, .csv.zst), otherwise a tab
    #[arg(long, value_name = "CHAR", value_parser = byte)]
    pub delimiter: Option<u8>,
    /// Quote around fields, doubled within (RFC 4180): one character, or `none`; default: "
    /// if the delimiter is , or ;
    ///
    /// Quoted fields may have line breaks, where the id or the time is a field or a column: then a
    /// record ends with its last line.
    #[arg(long, value_name = "CHAR", value_parser = quote)]
    pub quote: Option<Quote>,
    /// The first line of each file is a header: it is no event, and printed once
    #[arg(long)]
    pub header: bool,
    /// Action for a file whose header is not the one of the first file
    #[arg(long, value_name = "ACTION", default_value = "align", requires = "headed")]
    pub header_mismatch: HeaderMismatch,
}

impl FormatArgs {
    /// Returns the delimiter, also if it is not given.
    pub fn delimiter(&self) -> u8 {
        self.delimiter.unwrap_or(delimiter::DEFAULT)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum TimeFormat {
    S,
    Ms,
    Us,
    Ns,
    Rfc3339,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum HeaderMismatch {
    /// Bring the same columns into the order of the first header; other columns are an error
    Align,
    /// Stop
    Error,
    /// Print records as they are, below their own header; a first line without the columns that
    /// are asked for is a record, with the columns of the file before
    Pass,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Missing {
    /// Stop
    Error,
    /// Print the line (`filter` only)
    Pass,
    /// Drop the line
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum OnBad {
    /// Stop
    Error,
    /// Drop the line, and count it
    Skip,
}
