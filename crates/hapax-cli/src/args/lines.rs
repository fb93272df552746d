//! The options that say how lines are read: where ids and times are, and what a bad line means.

use super::delimiter;
use super::times::{TimeFormat, time_format, time_zone};
use super::values::{Quote, byte, field, line_bytes, pointer, quote};
use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;
use std::path::PathBuf;

/// The places of ids and times in lines.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("headed").args(["header", "column", "time_column"]).multiple(true)))]
pub struct LineArgs {
    #[command(flatten)]
    pub id: IdArgs,

    /// Let the text of a JSON id count without its type: "1" is 1, and "true" is true (but 1.0 is
    /// not 1)
    #[arg(long, requires = "json", conflicts_with_all = ["field", "column", "regex"], help_heading = "Place of the id")]
    pub loose: bool,
    /// Compare ids in lower case, as Unicode has it; --count shows them so
    #[arg(long, help_heading = "Place of the id")]
    pub ignore_case: bool,

    #[command(flatten)]
    pub time: TimeArgs,

    #[command(flatten)]
    pub format: FormatArgs,

    /// Action for a line with nothing but blanks, where the id is the whole line; `once` without
    /// it. Where an id is taken out of lines, --missing says it
    #[arg(long, value_name = "ACTION", conflicts_with = "IdArgs", help_heading = "Errors")]
    pub blank: Option<Blank>,
}

impl LineArgs {
    /// Returns the same options with the delimiter that the names of the files say, if none is
    /// given, unless lines are JSON and no field is asked for.
    ///
    /// # Errors
    ///
    /// Names that say different delimiters.
    pub fn of_files(&self, files: &[PathBuf]) -> Result<Self, String> {
        let mut lines = self.clone();
        if lines.format.delimiter.is_none() && (lines.asks_for_fields() || lines.id.json.is_empty()) {
            lines.format.delimiter = Some(delimiter::of_names(files)?);
        }
        Ok(lines)
    }

    /// Returns true if an input may be an array whose elements are its records: they are JSON, and
    /// no pointer begins with a number, as one into lines that are arrays does.
    pub fn may_have_arrays(&self) -> bool {
        let pointers = || self.id.json.iter().chain(&self.time.time_json);
        let is_of_array = |pointer: &String| pointer.split('/').nth(1).is_some_and(|key| key.parse::<usize>().is_ok());
        !self.format.null && pointers().next().is_some() && !pointers().any(is_of_array)
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
    /// Action for a line whose id is missing or blank, or null, where an id is taken out of lines
    #[arg(long, value_name = "ACTION", default_value = "error", requires = "IdArgs", help_heading = "Errors")]
    pub missing: Missing,

    /// Action for a line that is malformed, or too long
    #[arg(long, value_name = "ACTION", default_value = "error", help_heading = "Errors")]
    pub on_bad: OnBad,

    /// The longest line (like 4096 or 16M)
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = line_bytes,
          help_heading = "Errors")]
    pub line_bytes_max: u32,
}

/// Returns the names of the options of [`LineArgs`] and [`BadLineArgs`].
pub fn of_records() -> Vec<clap::Id> {
    let command = BadLineArgs::augment_args(LineArgs::augment_args(clap::Command::new("")));
    command.get_arguments().map(|arg| arg.get_id().clone()).collect()
}

/// The place of the id. Without any of these it is the whole line.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Place of the id")]
#[group(multiple = false)]
pub struct IdArgs {
    /// The id is this field, counted from 1; or all of these fields together
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = field)]
    pub field: Vec<u32>,
    /// The id is the column of this name in the header; or all of these columns together (a name
    /// with a comma: by --field)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub column: Vec<String>,
    /// Lines are JSON, and the id is the string, number or boolean at this pointer (RFC 6901, like
    /// /message/id); given several times, all of these together. Its type counts ("1" is not 1, see
    /// --loose), and so does the way a number is written (1.0 is not 1)
    ///
    /// An input that begins with [ is an array, whose elements are the records. Each is printed on
    /// one line, as it is except for line breaks in it, which become spaces. Where a pointer begins
    /// with a number (like /0/id), lines are arrays
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    pub json: Vec<String>,
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
    #[arg(long, value_name = "N", value_parser = field, group = "time")]
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
    /// Format of the time: a number of units since 1970 (s, ms, us, ns), fractions allowed;
    /// rfc3339, or python (2026-11-27 10:00:00,123); apache (10/Oct/2026:13:55:36 +0000); syslog
    /// (Nov 27 10:00:00); or a pattern of strftime, like '%d.%m.%Y %H:%M:%S'
    ///
    /// Of syslog, the year is the latest one in which the time is not more than a day ahead of the
    /// clock
    #[arg(long, value_name = "FORMAT", requires = "time", default_value = "rfc3339", value_parser = time_format)]
    pub time_format: TimeFormat,
    /// Zone of times that do not say theirs: UTC, an offset like +02:00, or a name like
    /// Europe/Berlin; an hour that it has twice, or not at all, makes a line malformed
    #[arg(long, value_name = "ZONE", requires = "time", value_parser = time_zone, allow_hyphen_values = true)]
    pub time_zone: Option<TimeZone>,
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
    /// Quoted fields may have line breaks, whatever the id is: a record ends with its last line,
    /// and is printed as it is. Ids are values of fields: "a" and a are the same
    #[arg(long, value_name = "CHAR", value_parser = quote)]
    pub quote: Option<Quote>,
    /// The first line of each file is a header: it is no event, and printed once
    #[arg(long, conflicts_with_all = ["json", "time_json"])]
    pub header: bool,
    /// Records end with NUL instead of a line's end, read and printed, as those of `find -print0`
    /// and `sort -z`; fields have no quotes
    #[arg(long, conflicts_with = "quote")]
    pub null: bool,
    /// Action for a file whose header is not the one of the first file
    #[arg(long, value_name = "ACTION", default_value = "align", requires = "headed")]
    pub header_mismatch: HeaderMismatch,
}

impl FormatArgs {
    /// Returns the delimiter, also if it is not given.
    pub fn delimiter(&self) -> u8 {
        self.delimiter.unwrap_or(delimiter::DEFAULT)
    }

    /// Returns the byte that ends a record.
    pub fn last_byte(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Blank {
    /// Print the first one, as any line
    Once,
    /// Print all of them (`filter` only)
    Pass,
    /// Print none
    Drop,
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
