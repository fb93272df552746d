//! The options of `hapax filter`.

use super::verdicts::print::Wanted;
use super::verdicts::refusing::RefusingArgs;
use crate::args::units::{bytes, capacity, duration, number};
use crate::args::{BadLineArgs, Format, LineArgs, seed};
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;

pub const ABOUT: &str = "\
Reads lines and prints the first sighting of each id within the window.

Input is read from files, or from standard input (also as `-`), of any size in constant memory; a directory stands for \
the files in it. gzip and zstd are recognized by content, UTF-16 by its byte order mark. A mark is no part of an id. \
Lines end with LF or CRLF and are printed as they are; an id never includes the line's end.";

const HELP: &str = "\
Exit codes:
  0         done; also when whoever reads the output closes it
  1         a file could not be read, or the output or the state not be written
  2         the options make no sense, or what they allow is not enough
  3         a line is not what the options say it is
  4         done, but ids had to be forgotten before their time: give --max-memory
  5         done, but ids of the state are lost, since its files were damaged
  130, 143  asked to end by SIGINT, SIGTERM: at a whole line; a second one ends it at once

Examples:
  hapax filter events.log 'logs/*.gz'
  Place of the id: hapax filter --column order_id,line orders.csv
  Place of the time: hapax filter --json /id --time-json /at --window 10m events.jsonl
  Division of lines: hapax filter --null --regex '[^/]*$' < names.of.print0
  Memory: hapax filter --spill /var/tmp events.log
  Output: hapax filter --column id --keep last --output orders.csv orders.csv
  Errors: hapax filter --json /id --on-bad skip events.jsonl
  Times that cannot be right: hapax filter --field 1 --time-field 2 --window 1h --max-skew 5m a.tsv";

#[derive(Debug, clap::Args)]
#[command(
    after_help = HELP,
    group(clap::ArgGroup::new("event_time").args(["time_field", "time_column", "time_json", "time_regex"]).multiple(true)
        .requires("window"))
)]
pub struct FilterArgs {
    /// Files to read one after the other; `-` is standard input
    ///
    /// A directory stands for its files in order of name, without those that are hidden or further
    /// below. A pattern like 'logs/*.gz' may be quoted, for more files than a command line takes
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub lines: LineArgs,

    /// Remember an id for this long (like 10m or 36h); without it, for the whole input
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Memory")]
    pub window: Option<Duration>,

    /// Be exact over inputs with more ids than fit into memory, with temporary files in this
    /// directory
    ///
    /// The input is read twice, and nothing is printed before it was read to its end; lines are
    /// printed in their order. The whole process takes no more than --max-memory (2G without it, at
    /// least 64M). On top of it come twice the longest line if that has more than 2 MiB, twice its
    /// id if it is not the line as it is, and what unpacking a zstd file takes that was packed with
    /// --ultra or --long (128 MiB at most). The directory needs 18 bytes for each line, and room
    /// for a copy of what can be read once only, as a pipe. The files have no names: nothing is
    /// left of them, however the command ends. An input that changes meanwhile is an error; one
    /// that grows is read as far as it was long
    #[arg(long, value_name = "DIR", help_heading = "Memory",
          conflicts_with_all = ["window", "capacity", "history", "state", "seed", "refresh_on_duplicate", "time",
                                "event_time", "merge"])]
    pub spill: Option<PathBuf>,

    /// Make room for this many ids to begin with (like 20000, 5M or 1e9); without it, for a
    /// million, or for as many as the input can have if that is less. Memory grows with the number
    /// of ids in any case; room for all of them from the beginning is a little faster
    #[arg(long, value_name = "IDS", value_parser = capacity, help_heading = "Memory")]
    pub capacity: Option<usize>,

    /// Take this much memory at most when there are more ids, in binary units (like 512M or 16G:
    /// GiB); 8G without it, unless the capacity takes more. With --spill or --keep last it is that
    /// of the whole process, and 2G without it
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Memory")]
    pub max_memory: Option<usize>,

    /// Remember ids beyond the window in a Bloom filter: for how long, with which false-positive
    /// rate and, unless the input's size tells, for how many ids in that time (like 24h:1e-6 or
    /// 24h:1e-6:50M). It may be mistaken: say with --unconfirmed what that means
    #[arg(long, value_name = "HORIZON:RATE[:IDS]", value_parser = history,
          requires_all = ["window", "unconfirmed"], help_heading = "Memory")]
    pub history: Option<History>,

    /// Outcome of a line whose id only the history knows: `duplicate` drops new lines at its
    /// false-positive rate, `fresh` lets old ones pass
    #[arg(long, value_name = "OUTCOME", requires = "history", help_heading = "Memory")]
    pub unconfirmed: Option<Unconfirmed>,

    /// Remember ids in this directory, and how far each input was printed, from one run to the next
    ///
    /// However a run ends, the next one with the same inputs goes on from there: no line is
    /// missing, none is glued to another, and what is printed again is at most what was printed
    /// last. To a file, what was written counts as printed (half a line at its end is cut off); to
    /// a pipe, what its reader has taken; to anything else, what was written. In a pipe that nobody
    /// else writes to, a run that is killed leaves whole lines; only of one of more than 4,096
    /// bytes (PIPE_BUF, on Linux) it may leave a part, and the next run begins right behind it. A
    /// file that was replaced or cut short is new, and so is a stream that begins otherwise; one
    /// that begins the same is skipped up to where it was, unless it was read to its end and
    /// --window goes by the time of arrival. With other options for what events are, or for what is
    /// printed, an input is read from its beginning
    #[arg(long, value_name = "DIR", help_heading = "Memory")]
    pub state: Option<PathBuf>,

    /// Action if files in the state's directory are damaged or missing, in a way that no crash
    /// leaves. What is kept is said, and what is lost; then the exit code is 5
    #[arg(long, value_name = "ACTION", default_value = "refuse", requires = "state", help_heading = "Memory")]
    pub damage: Damage,

    /// The seed of the hash function: with the same one, a run that has to forget ids early is the
    /// same each time. It is drawn at random otherwise, so that nobody can choose ids that collide.
    /// With --state it is the one of the first run
    #[arg(long, value_name = "N", value_parser = seed, help_heading = "Memory")]
    pub seed: Option<u64>,

    /// Let a duplicate extend its id's stay, so that the window slides
    #[arg(long, requires = "window", help_heading = "Memory")]
    pub refresh_on_duplicate: bool,

    /// Read all files at once, in order of the times of their events
    ///
    /// Each must be in that order, within --allowed-lateness; the first event of each that is not
    /// is said. Events of one time come in the order of files, and a line without a time behind
    /// the one before it. As many files are read as may be open (`ulimit -n`); of pipes, a line is
    /// printed when each has a next one or has ended. With --state, each is gone on with where it
    /// was
    #[arg(long, requires_all = ["window", "time"], help_heading = "Memory")]
    pub merge: bool,

    /// The record of each id that is printed. For the last one the input is read twice, as with
    /// --spill, whose directory is that of the system for temporary files if none is given
    #[arg(long, value_name = "WHICH", default_value = "first", help_heading = "Output")]
    pub keep: Keep,

    /// Write to this file, not to standard output; it may be one of the inputs
    ///
    /// The lines are written beside it, and replace it at the end, with exit code 0 or 4: else it
    /// is left as it was. A run that is killed leaves a file .hapax-… there
    #[arg(short, long, value_name = "FILE", conflicts_with = "state", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Print the duplicates instead
    #[arg(long, conflicts_with = "mark", help_heading = "Output")]
    pub duplicates: bool,

    /// Write the duplicates to this file, beside the first sightings on standard output
    ///
    /// It is made anew. With --state it is continued: no duplicate is missing, lines that were not
    /// recorded yet come again, and half a line, which a run has left that was killed, is ended
    #[arg(long, value_name = "FILE", conflicts_with_all = ["duplicates", "mark"], help_heading = "Output")]
    pub duplicates_to: Option<PathBuf>,

    /// Write to this file, at the end, how often each id was repeated: how many of its lines were
    /// duplicates, the most frequent first
    ///
    /// It is made anew, and counts what this run has read. Columns are separated by tabs:
    /// `repeated`, `at_least`, and the id, with escapes like \t or \xff. Both numbers are the
    /// same, and exact, if no more than 100,000 ids were repeated, of 16 MiB in all. Else they are
    /// bounds, and it is said on standard error how often an id can have been repeated that is not
    /// listed
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub count: Option<PathBuf>,

    /// Print every line, after a column that says fresh or duplicate and which tier decided:
    /// `fresh:window`, `duplicate:history?` (with `?` for a guess)
    #[arg(long, help_heading = "Output")]
    pub mark: bool,

    /// Print counts to standard error at the end
    #[arg(long, help_heading = "Output")]
    pub stats: bool,

    /// Form of these counts
    #[arg(long, value_name = "FORMAT", default_value = "text", requires = "stats", help_heading = "Output")]
    pub format: Format,

    /// Do not show progress (it is shown on standard error when that is a terminal and standard
    /// output is none)
    #[arg(long, help_heading = "Output")]
    pub no_progress: bool,

    #[command(flatten)]
    pub bad: BadLineArgs,

    #[command(flatten)]
    pub refusing: RefusingArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Keep {
    First,
    Last,
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

/// A history behind the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct History {
    pub horizon: Duration,
    pub false_positive_rate: f64,
    pub ids: Option<usize>,
}

/// Parses a history.
pub fn history(text: &str) -> Result<History, String> {
    let mut parts = text.split(':');
    let (Some(horizon), Some(rate)) = (parts.next(), parts.next()) else {
        return Err("it looks like 24h:1e-6 or 24h:1e-6:50M".to_string());
    };
    let ids = parts.next().map(capacity).transpose()?;
    if parts.next().is_some() {
        return Err("there is something after the number of ids".to_string());
    }
    let false_positive_rate = number(rate).map_err(|e| format!("the rate {rate}: {e}"))?;
    Ok(History { horizon: duration(horizon)?, false_positive_rate, ids })
}

impl FilterArgs {
    /// Returns an error if another option contradicts `--keep last`.
    pub fn check_keep(&self) -> Result<(), String> {
        let whole = "it is that of the whole input";
        let contradicting = [
            ("--window", self.window.is_some(), whole),
            ("--state", self.state.is_some(), whole),
            ("--capacity", self.capacity.is_some(), "give --max-memory"),
            ("--seed", self.seed.is_some(), "it is exact with any"),
        ];
        match contradicting.iter().find(|(_, is_given, _)| self.keep == Keep::Last && *is_given) {
            Some((option, _, why)) => Err(format!("--keep last cannot be used with {option}: {why}")),
            None => Ok(()),
        }
    }

    /// Returns the lines that are to be printed.
    pub fn wanted(&self) -> Wanted {
        match (self.duplicates, self.mark) {
            (true, _) => Wanted::Duplicates,
            (_, true) => Wanted::Marked { delimiter: self.lines.format.delimiter() },
            _ => Wanted::Fresh,
        }
    }
}

#[cfg(any(fuzzing, test))]
impl FilterArgs {
    /// Parses options as they are given to `hapax filter`.
    pub fn parse<'o>(options: impl IntoIterator<Item = &'o str>) -> Result<Self, clap::Error> {
        let filter = <Self as clap::Args>::augment_args(clap::Command::new("filter"));
        let matches = filter.try_get_matches_from(std::iter::once("filter").chain(options))?;
        <Self as clap::FromArgMatches>::from_arg_matches(&matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;
    use std::collections::BTreeSet;

    /// Splits a command line as a shell does, where nothing but words has single quotes.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        let parts = parts.map(|(i, part)| if i % 2 == 1 { part.replace(' ', "\0") } else { part.to_string() });
        parts.collect::<String>().split(' ').map(|word| word.replace('\0', " ")).collect()
    }

    #[test]
    fn each_section_of_the_help_has_an_example_that_runs() {
        let (_, examples) = HELP.split_once("\nExamples:\n").unwrap();
        let filter = FilterArgs::augment_args(clap::Command::new("filter"));
        let mut sections: BTreeSet<&str> = filter.get_arguments().filter_map(|arg| arg.get_help_heading()).collect();
        for example in examples.lines() {
            let (section, options) = example.split_once("hapax filter ").unwrap();
            let options = words(options.split(" < ").next().unwrap());
            FilterArgs::parse(options.iter().map(String::as_str)).unwrap_or_else(|why| panic!("{example}: {why}"));
            sections.retain(|heading| heading.split(" (").next() != section.trim().strip_suffix(':'));
        }
        assert!(sections.is_empty(), "without an example: {sections:?}");
    }

    #[test]
    fn histories_are_understood() {
        let horizon = Duration::from_secs(86_400);
        assert_eq!(history("24h:1e-6"), Ok(History { horizon, false_positive_rate: 1e-6, ids: None }));
        assert_eq!(history("24h:0.01:5_000").unwrap().ids, Some(5_000));
        assert!(history("24h").is_err() && history("24h:x").is_err() && history("24h:0.1:1:2").is_err());
    }
}
