//! The command line.

use crate::plan::PlanArgs;
use clap::{Parser, Subcommand, ValueEnum};
use jiff::{Span, SpanRelativeTo};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Parser)]
#[command(name = "hapax", version, about = "Has this id been seen before?", arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the first line with each id
    // Here, since this doc comment would go before what the arguments say of themselves.
    #[command(long_about = FILTER_ABOUT)]
    Filter(Box<FilterArgs>),
    /// Say how to configure an engine, what it will cost and what it will miss
    #[command(long_about = crate::plan::ABOUT)]
    Plan(Box<PlanArgs>),
    /// Compare ways to deduplicate: how fast, how large, how often wrong
    #[cfg(feature = "bench")]
    Bench(Box<crate::bench::BenchArgs>),
    /// Look into a directory that `filter --state`, or an engine with a journal, has left
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Print the manual page of hapax, or of one of its commands
    Man { command: Option<String> },
}

#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Print what is in each file, without changing anything
    Inspect {
        /// The journal's directory
        path: PathBuf,
        /// Print each run of ids with its time, too
        #[arg(long)]
        runs: bool,
    },
}

const FILTER_ABOUT: &str = "\
Reads lines and prints the first sighting of each id within the window.

Input is read from files, or from standard input (also as `-`), of any size in constant memory; gzip and zstd are \
recognized by content. Lines end with LF or CRLF and are printed as they are; an id never includes the line's end.";

const FILTER_HELP: &str = "\
Exit codes:
  0  done (also when whoever reads the output closes it)
  1  a file could not be read, or the output not be written
  2  the options make no sense
  3  a line is not what the options say it is (see --on-bad and --missing)
  4  done, but ids had to be forgotten before their time, so some duplicates may have passed

Examples:
  hapax filter events.log
  hapax filter --json /id --time-json /at --time-format rfc3339 --window 10m events.jsonl.zst
  hapax filter --column order_id --delimiter , orders.csv
  kafkacat … | hapax filter --regex 'id=(\\w+)' --window 1h --capacity 5000000";

#[derive(Debug, clap::Args)]
#[command(
    after_help = FILTER_HELP,
    group(clap::ArgGroup::new("event_time").args(["time_field", "time_column", "time_json", "time_regex"]).multiple(true)
        .requires("window"))
)]
pub struct FilterArgs {
    /// Files to read one after the other; `-` is standard input
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub lines: LineArgs,

    /// For how long an id is remembered (like 10m or 36h); without it, for the whole input
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "What is remembered")]
    pub window: Option<Duration>,

    /// How many ids to have room for to begin with; without it, as many as the input can have, up to 1 GiB of memory
    #[arg(long, value_name = "IDS", value_parser = capacity, help_heading = "What is remembered")]
    pub capacity: Option<usize>,

    /// How much memory to take when there are more ids (like 512M or 16G); 8G without it, unless the capacity takes more
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "What is remembered")]
    pub max_memory: Option<usize>,

    /// Remember ids beyond the window in a Bloom filter: for how long, with which false-positive rate and, unless the input's size
    /// tells, for how many ids in that time (like 24h:1e-6 or 24h:1e-6:50000000)
    #[arg(long, value_name = "HORIZON:RATE[:IDS]", value_parser = history, requires = "window",
          help_heading = "What is remembered")]
    pub history: Option<History>,

    /// What a line is whose id only the history knows, which may be mistaken
    #[arg(long, value_name = "OUTCOME", requires = "history", help_heading = "What is remembered")]
    pub unconfirmed: Option<Unconfirmed>,

    /// Remember ids in this directory from one run to the next, and across crashes: killed at any time and started again with the same input and
    /// options, at most what was printed last is printed twice, and nothing is missing
    #[arg(long, value_name = "DIR", help_heading = "What is remembered")]
    pub state: Option<PathBuf>,

    /// Let a duplicate extend its id's stay, so that the window slides
    #[arg(long, requires = "window", help_heading = "What is remembered")]
    pub refresh_on_duplicate: bool,

    /// Print the duplicates instead
    #[arg(long, conflicts_with = "mark", help_heading = "What is printed")]
    pub duplicates: bool,

    /// Print every line, after a column that says fresh or duplicate and which tier decided: `fresh:window`,
    /// `duplicate:history?` (with `?` for a guess)
    #[arg(long, help_heading = "What is printed")]
    pub mark: bool,

    /// Print counts to standard error at the end, as a table or as JSON
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table",
          help_heading = "What is printed")]
    pub stats: Option<StatsFormat>,

    /// Do not show progress (it is shown on standard error when that is a terminal and standard output is none)
    #[arg(long, help_heading = "What is printed")]
    pub no_progress: bool,

    #[command(flatten)]
    pub bad: BadLineArgs,
}

/// Where ids and times are in lines.
#[derive(Debug, clap::Args)]
pub struct LineArgs {
    #[command(flatten)]
    pub id: IdArgs,

    #[command(flatten)]
    pub time: TimeArgs,

    #[command(flatten)]
    pub format: FormatArgs,
}

/// What becomes of lines that are not what [`LineArgs`] say.
#[derive(Debug, clap::Args)]
pub struct BadLineArgs {
    /// What to do with a line whose id is missing or blank
    #[arg(long, value_name = "ACTION", default_value = "error", help_heading = "What can go wrong")]
    pub missing: Missing,

    /// What to do with a line that is malformed, or too long
    #[arg(long, value_name = "ACTION", default_value = "error", help_heading = "What can go wrong")]
    pub on_bad: OnBad,

    /// The longest line, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 30),
          help_heading = "What can go wrong")]
    pub line_bytes_max: u32,
}

/// The options of [`LineArgs`] and [`BadLineArgs`].
pub const OF_RECORDS: [&str; 15] = [
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
    "missing",
    "on_bad",
    "line_bytes_max",
];

/// Where the id is. Without any of these it is the whole line.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Where the id is")]
#[group(multiple = false)]
pub struct IdArgs {
    /// The id is this field, counted from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub field: Option<u32>,
    /// The id is the column of this name in the header
    #[arg(long, value_name = "NAME")]
    pub column: Option<String>,
    /// Lines are JSON, and the id is the string, number or boolean at this pointer (RFC 6901, like /message/id)
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    pub json: Option<String>,
    /// The id is what the group `id` of this regular expression captures, or else its first group, or else the whole match
    #[arg(long, value_name = "REGEX")]
    pub regex: Option<String>,
}

/// Where the time of the event is. Without any of these, the time of arrival counts.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Where the time is (otherwise: when a line arrives)")]
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
    /// The time is what the group `time` of this regular expression captures, or else its first group, or else the whole match
    #[arg(long, value_name = "REGEX", group = "time")]
    pub time_regex: Option<String>,
    /// How the time is written: as a number of units since 1970, fractions allowed, or as in RFC 3339
    #[arg(long, value_name = "FORMAT", requires = "time", default_value = "rfc3339")]
    pub time_format: TimeFormat,
}

/// How lines are divided into fields.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How lines are divided")]
pub struct FormatArgs {
    /// What is between fields: one character, or \t
    #[arg(long, value_name = "CHAR", default_value = "\\t", value_parser = byte)]
    pub delimiter: u8,
    /// What fields are quoted with, doubled within (RFC 4180): one character, or `none`; default: " if the delimiter is , or ;
    #[arg(long, value_name = "CHAR", value_parser = quote)]
    pub quote: Option<Quote>,
    /// The first line of each file is a header: it is no event, and printed once
    #[arg(long)]
    pub header: bool,
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

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Unconfirmed {
    Duplicate,
    Fresh,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum StatsFormat {
    Table,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quote {
    None,
    With(u8),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct History {
    pub horizon: Duration,
    pub false_positive_rate: f64,
    pub ids: Option<usize>,
}

/// Days have 24 hours here.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
    let signed = parsed.map_err(|e| format!("{e}; a duration looks like 10m, 1h 30m or 7d"))?;
    Duration::try_from(signed).map_err(|_| "a duration cannot be negative".to_string())
}

/// A whole number, with a decimal suffix or none.
pub fn capacity(text: &str) -> Result<usize, String> {
    if !text.ends_with(['k', 'M', 'G']) {
        return text.replace('_', "").parse().map_err(|e| format!("{e}"));
    }
    let number = rate(text)?;
    match number >= 0.0 && number.fract() == 0.0 && number < usize::MAX as f64 {
        true => Ok(number as usize),
        false => Err("it is no whole number".to_string()),
    }
}

/// A number, with a decimal suffix or none.
pub fn rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    number(digits).map(|number| number * factor)
}

pub fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim().replace('_', "").parse().map_err(|e| format!("{e}"))?;
    number.is_finite().then_some(number).ok_or_else(|| "it is no number".to_string())
}

/// A number of bytes, with a binary suffix or none.
pub fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &*text[digits.len()..].to_ascii_uppercase() {
        "" => 1,
        "K" | "KIB" => 1_usize << 10,
        "M" | "MIB" => 1 << 20,
        "G" | "GIB" => 1 << 30,
        "T" | "TIB" => 1 << 40,
        unknown => return Err(format!("{unknown} is none of K, M, G and T")),
    };
    let number = capacity(digits)?;
    number.checked_mul(factor).ok_or_else(|| "that is more than there can be".to_string())
}

fn history(text: &str) -> Result<History, String> {
    let mut parts = text.split(':');
    let (Some(horizon), Some(rate)) = (parts.next(), parts.next()) else {
        return Err("it looks like 24h:1e-6 or 24h:1e-6:50000000".to_string());
    };
    let ids = parts.next().map(capacity).transpose()?;
    if parts.next().is_some() {
        return Err("there is something after the number of ids".to_string());
    }
    let false_positive_rate = rate.parse().map_err(|e| format!("the rate {rate}: {e}"))?;
    Ok(History { horizon: duration(horizon)?, false_positive_rate, ids })
}

fn pointer(text: &str) -> Result<String, String> {
    match text.is_empty() || text.starts_with('/') {
        true => Ok(text.to_string()),
        false => Err("a JSON pointer begins with /".to_string()),
    }
}

fn byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "\\t" => Ok(b'\t'),
        [byte] if !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => Err("it must be a single byte, and not the end of a line".to_string()),
    }
}

fn quote(text: &str) -> Result<Quote, String> {
    match text {
        "none" => Ok(Quote::None),
        _ => byte(text).map(Quote::With),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn long_help_says_more_than_one_line() {
        for (command, says) in [("filter", "first sighting of each id"), ("plan", "found out from ids that have come")]
        {
            let help = Args::command().find_subcommand_mut(command).unwrap().render_long_help().to_string();
            assert!(help.contains(says), "{help}");
        }
    }

    #[test]
    fn values_are_understood() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2w 1d"), Ok(Duration::from_secs(15 * 86_400)));
        assert!(duration("1 month").is_err());
        assert_eq!([capacity("20_000"), capacity("20k"), capacity("1.5M")], [20_000, 20_000, 1_500_000].map(Ok));
        assert!(["", "k", "1.0005k", "-1k", "1e30G", "20K"].iter().all(|text| capacity(text).is_err()));
        assert!(duration("-1s").is_err() && duration("10").is_err() && duration("").is_err());
        let horizon = Duration::from_secs(86_400);
        assert_eq!(history("24h:1e-6"), Ok(History { horizon, false_positive_rate: 1e-6, ids: None }));
        assert_eq!(history("24h:0.01:5_000").unwrap().ids, Some(5_000));
        assert!(history("24h").is_err() && history("24h:x").is_err() && history("24h:0.1:1:2").is_err());
        assert_eq!((byte("\\t"), byte(",")), (Ok(b'\t'), Ok(b',')));
        assert!(byte("").is_err() && byte("ab").is_err() && byte("\n").is_err());
        assert_eq!((quote("none"), quote("'")), (Ok(Quote::None), Ok(Quote::With(b'\''))));
        assert!(pointer("/a/0").is_ok() && pointer("").is_ok() && pointer("a").is_err());
    }
}
