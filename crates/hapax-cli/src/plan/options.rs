//! The options of `hapax plan`.

use crate::args::{BadLineArgs, LineArgs, OF_RECORDS, bytes, capacity, duration, number, rate};
use std::path::PathBuf;
use std::time::Duration;

pub const ABOUT: &str = "\
Says how to configure an engine, what that will cost, and what it will miss.

What it is to do is said by options, or found out from ids that have come (--from): how often they come, in which \
bursts, and how far their duplicates are apart. A window counts from the last record with an id that was accepted.";

const HELP: &str = "\
Exit codes:
  0  done
  1  a file could not be read, or the output not be written
  2  the options make no sense, alone, together or for these records; or the memory does not suffice
  3  a line is not what the options say it is (see --on-bad and --missing)

Examples:
  hapax plan --rate 20000 --window 10m --duplicates 0.05 --peak 3
  hapax plan --rate 20000 --window 10m --history 24h --memory 4G --journal
  hapax plan --header --column id --time-column at --from events.csv.zst";

/// The options of the demand, and the files from which it is derived.
#[derive(Debug, clap::Args)]
#[command(
    after_help = HELP,
    group(clap::ArgGroup::new("of_records").args(OF_RECORDS).multiple(true).requires("from"))
)]
pub struct PlanArgs {
    /// Checks a second on average, duplicates included (like 20000, 20k or 1.5M); with --from only
    /// if the records have no times
    #[arg(long, value_name = "CHECKS", value_parser = rate, help_heading = "What is to be done")]
    pub rate: Option<f64>,

    /// For how long ids are to be remembered; with --from it can be left out
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "What is to be done")]
    pub window: Option<Duration>,

    /// Which share of the checks are of ids that the window knows (like 0.05 or 5%)
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "from",
          help_heading = "What is to be done")]
    pub duplicates: Option<f64>,

    /// How many times as many ids come in the busiest window as in one on average; with --from only
    /// if the records have no times
    #[arg(long, value_name = "FACTOR", help_heading = "What is to be done")]
    pub peak: Option<f64>,

    /// How many times as many as in the busiest window it must be able to grow to; 1: the window
    /// never grows; 2 without this
    #[arg(long, value_name = "FACTOR", help_heading = "What is to be done")]
    pub growth: Option<f64>,

    /// Remember ids for so long in a Bloom filter behind the window
    #[arg(long, value_name = "HORIZON", value_parser = duration, help_heading = "What is to be done")]
    pub history: Option<Duration>,

    /// How many times as many ids come in the busiest horizon as in one on average; without it, as
    /// --peak says if that is less than a day; with --from only if the records have no times
    #[arg(long, value_name = "FACTOR", requires = "history", help_heading = "What is to be done")]
    pub history_peak: Option<f64>,

    /// At which rate the history may take new ids for duplicates (like 1e-4); without it, as low as
    /// --memory allows
    #[arg(long, value_name = "RATE", value_parser = share, requires = "history", help_heading = "What is to be done")]
    pub false_positives: Option<f64>,

    /// Ids are claimed, and the work on one takes so long
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "What is to be done")]
    pub work: Option<Duration>,

    /// Keep a journal, and make it durable so often; 5ms without a value
    #[arg(long, value_name = "INTERVAL", value_parser = duration, num_args = 0..=1, require_equals = true,
          default_missing_value = "5ms", help_heading = "What is to be done")]
    pub journal: Option<Duration>,

    /// How many ids a second are read from the journal at the start (as measured on another
    /// machine: 32M)
    #[arg(long, value_name = "IDS", value_parser = rate, requires = "journal", help_heading = "What is to be done")]
    pub replay_rate: Option<f64>,

    /// What window, history and claims may take together (like 512M or 16G)
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "What is to be done")]
    pub memory: Option<usize>,

    /// Find out from these files what is to be done, read one after the other; `-` is standard
    /// input
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "What has come")]
    pub from: Vec<PathBuf>,

    /// Plan for the window that catches this share of the repeats (like 0.999 or 99.9%), rounded
    /// up; 0.999 without it
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "from", conflicts_with = "window",
          help_heading = "What has come")]
    pub catch: Option<f64>,

    /// The most records to look at, at up to 90 bytes for each id and 48 for each repeat; with more
    /// nothing is planned
    #[arg(long, value_name = "RECORDS", default_value = "50_000_000", value_parser = capacity, requires = "from",
          help_heading = "What has come")]
    pub max_records: usize,

    #[command(flatten)]
    pub lines: LineArgs,

    #[command(flatten)]
    pub bad: BadLineArgs,

    /// How the answer is printed
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = "What is printed")]
    pub report: ReportFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum ReportFormat {
    Text,
    Json,
}

/// Parses a share, also in percent.
fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        // The percentage is parsed as text, so that 99.9 % is exactly 0.999, without the rounding
        // of a division.
        Some(digits) => number(&format!("{}e-2", digits.trim()))?,
        None => number(text)?,
    };
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err("a share is from 0 to 1".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood() {
        assert_eq!([rate("20000"), rate("20_000"), rate("20k"), rate("1.5M")], [2e4, 2e4, 2e4, 1.5e6].map(Ok));
        assert_eq!([share("0.05"), share("5%"), share("99.9 %")], [0.05, 0.05, 0.999].map(Ok));
        for wrong in ["", "k", "x", "nan", "inf", "1e999", "5 apples"] {
            assert!(rate(wrong).is_err() && share(wrong).is_err(), "{wrong}");
        }
        assert!(share("1.5").is_err() && share("-1").is_err() && share("120%").is_err());
    }
}
