//! The command line.

mod refusing;
mod values;

pub use self::refusing::{Refused, RefusingArgs};
use self::values::{byte, pointer, quote};
pub use self::values::{bytes, capacity, duration, history, number, rate};
use crate::plan::PlanArgs;
use clap::{Parser, Subcommand, ValueEnum};
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
    // The long text is here, since this doc comment would go before that of the arguments.
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
  5  done, but ids of the state are lost, since its files were damaged (see --damage)
  130, 143  asked to end (SIGINT, SIGTERM): what is printed is whole lines, and remembered; a second signal ends it at once

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

    /// How many ids to have room for to begin with; without it, a million, or as many as the input
    /// can have if that is less. Memory grows with the number of ids in any case; room for all of
    /// them from the beginning is a little faster
    #[arg(long, value_name = "IDS", value_parser = capacity, help_heading = "What is remembered")]
    pub capacity: Option<usize>,

    /// How much memory to take when there are more ids (like 512M or 16G); 8G without it, unless
    /// the capacity takes more
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "What is remembered")]
    pub max_memory: Option<usize>,

    /// Remember ids beyond the window in a Bloom filter: for how long, with which false-positive
    /// rate and, unless the input's size tells, for how many ids in that time (like 24h:1e-6 or
    /// 24h:1e-6:50000000)
    #[arg(long, value_name = "HORIZON:RATE[:IDS]", value_parser = history, requires = "window",
          help_heading = "What is remembered")]
    pub history: Option<History>,

    /// What a line is whose id only the history knows, which may be mistaken
    #[arg(long, value_name = "OUTCOME", requires = "history", help_heading = "What is remembered")]
    pub unconfirmed: Option<Unconfirmed>,

    /// Remember ids in this directory, and how far each input was printed, from one run to the next
    ///
    /// However a run ends, the next one with the same inputs goes on from there: no line is
    /// missing, none is glued to another, and what is printed again is at most what was printed
    /// last. To a file, what was written counts as printed (half a line at its end is cut off); to
    /// a pipe, what its reader has taken; to anything else, what was written. A file that was
    /// replaced or cut short is new, and so is a stream that begins otherwise; one that begins the
    /// same is skipped up to where it was, unless it was read to its end and --window goes by the
    /// time of arrival. With other options for what events are, or for what is printed, an input is
    /// read from its beginning
    #[arg(long, value_name = "DIR", help_heading = "What is remembered")]
    pub state: Option<PathBuf>,

    /// What to do if files in the state's directory are damaged or missing, in a way that no crash
    /// leaves. What is kept is said, and what is lost; then the exit code is 5
    #[arg(
        long,
        value_name = "ACTION",
        default_value = "refuse",
        requires = "state",
        help_heading = "What is remembered"
    )]
    pub damage: Damage,

    /// The seed of the hash function: with the same one, a run that has to forget ids early is the
    /// same each time. It is drawn at random otherwise, so that nobody can choose ids that collide.
    /// With --state it is the one of the first run
    #[arg(long, value_name = "N", help_heading = "What is remembered")]
    pub seed: Option<u64>,

    /// Let a duplicate extend its id's stay, so that the window slides
    #[arg(long, requires = "window", help_heading = "What is remembered")]
    pub refresh_on_duplicate: bool,

    /// Print the duplicates instead
    #[arg(long, conflicts_with = "mark", help_heading = "What is printed")]
    pub duplicates: bool,

    /// Print every line, after a column that says fresh or duplicate and which tier decided:
    /// `fresh:window`, `duplicate:history?` (with `?` for a guess)
    #[arg(long, help_heading = "What is printed")]
    pub mark: bool,

    /// Print counts to standard error at the end, as a table or as JSON
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table",
          help_heading = "What is printed")]
    pub stats: Option<StatsFormat>,

    /// Do not show progress (it is shown on standard error when that is a terminal and standard
    /// output is none)
    #[arg(long, help_heading = "What is printed")]
    pub no_progress: bool,

    #[command(flatten)]
    pub bad: BadLineArgs,

    #[command(flatten)]
    pub refusing: RefusingArgs,
}

/// The places of ids and times in lines.
#[derive(Debug, clap::Args)]
pub struct LineArgs {
    #[command(flatten)]
    pub id: IdArgs,

    #[command(flatten)]
    pub time: TimeArgs,

    #[command(flatten)]
    pub format: FormatArgs,
}

/// The treatment of lines that do not match [`LineArgs`].
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

/// The place of the id. Without any of these it is the whole line.
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
    /// Lines are JSON, and the id is the string, number or boolean at this pointer (RFC 6901, like
    /// /message/id)
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    pub json: Option<String>,
    /// The id is what the group `id` of this regular expression captures, or else its first group,
    /// or else the whole match
    #[arg(long, value_name = "REGEX")]
    pub regex: Option<String>,
}

/// The place of the event's time. Without any of these, the time of arrival counts.
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
    /// The time is what the group `time` of this regular expression captures, or else its first
    /// group, or else the whole match
    #[arg(long, value_name = "REGEX", group = "time")]
    pub time_regex: Option<String>,
    /// How the time is written: as a number of units since 1970, fractions allowed, or as in RFC
    /// 3339
    #[arg(long, value_name = "FORMAT", requires = "time", default_value = "rfc3339")]
    pub time_format: TimeFormat,
}

/// The division of lines into fields.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How lines are divided")]
pub struct FormatArgs {
    /// What is between fields: one character, or \t
    #[arg(long, value_name = "CHAR", default_value = "\\t", value_parser = byte)]
    pub delimiter: u8,
    /// What fields are quoted with, doubled within (RFC 4180): one character, or `none`; default: "
    /// if the delimiter is , or ;
    ///
    /// Quoted fields may have line breaks, where the id or the time is a field or a column: then a
    /// record ends with its last line.
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
pub enum Damage {
    /// Stop, and change nothing
    Refuse,
    /// Go on with everything that is whole
    Keep,
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
}
