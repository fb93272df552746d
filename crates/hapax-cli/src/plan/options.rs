//! The options of `hapax plan`.

use crate::args::units::{bytes, capacity, duration, rate, share};
use crate::args::{BadLineArgs, Format, LineArgs, factor, of_records};
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
    group(clap::ArgGroup::new("of_records").args(of_records()).multiple(true).requires("from"))
)]
pub struct PlanArgs {
    /// Checks a second on average, duplicates included (like 20000, 20k or 1.5M); with --from only
    /// if the records have no times
    #[arg(long, value_name = "CHECKS", value_parser = rate, help_heading = "Demand")]
    pub rate: Option<f64>,

    /// Remember ids for this long; with --from it can be left out
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Demand")]
    pub window: Option<Duration>,

    /// Share of the checks that are of ids that the window knows (like 0.05 or 5%)
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "from",
          help_heading = "Demand")]
    pub duplicates: Option<f64>,

    /// Ratio of the ids that come in the busiest window to those in one on average; with --from
    /// only if the records have no times
    #[arg(long, value_name = "FACTOR", value_parser = factor, help_heading = "Demand")]
    pub peak: Option<f64>,

    /// Multiple of the ids in the busiest window that the window must be able to grow to; 1: it
    /// never grows; 2 without this
    #[arg(long, value_name = "FACTOR", value_parser = factor, help_heading = "Demand")]
    pub growth: Option<f64>,

    /// Remember ids for so long in a Bloom filter behind the window
    #[arg(long, value_name = "HORIZON", value_parser = duration, help_heading = "Demand")]
    pub history: Option<Duration>,

    /// Ratio of the ids that come in the busiest horizon to those in one on average; without it, as
    /// --peak says if that is less than a day; with --from only if the records have no times
    #[arg(long, value_name = "FACTOR", value_parser = factor, requires = "history", help_heading = "Demand")]
    pub history_peak: Option<f64>,

    /// Rate at which the history may take new ids for duplicates (like 1e-4); without it, as low as
    /// --memory allows
    #[arg(long, value_name = "RATE", value_parser = share, requires = "history", help_heading = "Demand")]
    pub false_positives: Option<f64>,

    /// Claim ids, the work on one of which takes this long
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Demand")]
    pub work: Option<Duration>,

    /// Keep a journal, and make it durable so often; 5ms without a value
    #[arg(long, value_name = "INTERVAL", value_parser = duration, num_args = 0..=1, require_equals = true,
          default_missing_value = "5ms", help_heading = "Demand")]
    pub journal: Option<Duration>,

    /// Remember ids for so long exactly, on the disk, behind the window
    #[arg(long, value_name = "RETENTION", value_parser = duration, conflicts_with = "history", help_heading = "Demand")]
    pub long_memory: Option<Duration>,

    /// Responses a second that an HTTP layer keeps in its store, for idempotency keys
    #[arg(long, value_name = "RESPONSES", value_parser = rate, requires = "response_bytes", help_heading = "Demand")]
    pub responses: Option<f64>,

    /// Bytes of such a response on average: body and kept headers (like 2000 or 2K: KiB)
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires = "responses", help_heading = "Demand")]
    pub response_bytes: Option<usize>,

    /// Keep responses for so long; 24h without this
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "responses", help_heading = "Demand")]
    pub response_retention: Option<Duration>,

    /// Memory that window, history and claims may take together (like 512M or 16G: GiB)
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Demand")]
    pub memory: Option<usize>,

    /// Find out from these files what is to be done, read one after the other; `-` is standard
    /// input
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Records that have come")]
    pub from: Vec<PathBuf>,

    /// Plan for the window that catches this share of the repeats (like 0.999 or 99.9%), rounded
    /// up; without it for the knee of the curve, from which no longer window catches a further
    /// 0.1 % of them for each time that it is doubled
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "from", conflicts_with = "window",
          help_heading = "Records that have come")]
    pub catch: Option<f64>,

    /// The most records to look at, at up to 90 bytes for each id and 48 for each repeat; with more
    /// nothing is planned
    #[arg(long, value_name = "RECORDS", default_value = "50_000_000", value_parser = capacity, requires = "from",
          help_heading = "Records that have come")]
    pub max_records: usize,

    #[command(flatten)]
    pub lines: LineArgs,

    #[command(flatten)]
    pub bad: BadLineArgs,

    /// Form of the answer
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub format: Format,
}
