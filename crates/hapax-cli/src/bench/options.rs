//! The command line of `hapax bench`.

use crate::args::{capacity, rate, seed, whole};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hapax_bench::measure::{IdKind, Shape};
use std::path::PathBuf;

pub const HELP: &str = "\
Exit codes:
  0         done
  1         a strategy gave more wrong answers than it promises; or a file could not be written
  2         the options make no sense
  130, 143  asked to end by SIGINT, SIGTERM: the outputs have what was finished

Examples:
  hapax bench --quick
  hapax bench --html report.html --save report.json
  hapax bench --live 1_000_000,10_000_000 --threads 1,2,4 --batch 1024 --only hapax,DashMap,Mutex
  hapax bench --rate 100_000,1_000_000 --batch 64 --without Redis,PostgreSQL
  hapax bench --workload zipf:1.1 --ids u64,uuid-text
  hapax bench --duplicates 0,0.1,0.5,0.9 --workload uniform,zipf:0.99 --only hapax,scc --rate max";

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Measures strategies to deduplicate, this crate's and others', on the same ids: how fast, how much \
        memory, how late, and how often wrong.\n\n\
        Every run is a process of its own, rounds go through all strategies in turn, and \
        every answer is compared with the truth. Options that take lists multiply; numbers may end in k or M. Without \
        --rate, ids also come at a rate once, for latencies; `--rate max` leaves that out.",
    after_help = HELP
)]
pub struct BenchArgs {
    #[command(flatten)]
    pub workload: WorkloadArgs,

    /// Ids within a window [default: 100k,1M; with --quick 20k,100k; with --rate only the first]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = capacity, help_heading = "How it is used")]
    pub live: Vec<usize>,

    /// Threads that share one strategy [default: 1 and all processors, up to 8]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = capacity, help_heading = "How it is used")]
    pub threads: Vec<usize>,

    /// Ids that are handed over at once; with --rate as many as are due, up to this; `ahead`: one
    /// by one, each prepared while the one before is checked [default: 1,ahead,1024; with --rate
    /// 64]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = way, help_heading = "How it is used")]
    pub batch: Vec<Way>,

    /// Ids a second that come, whether or not somebody is ready; `max`: as fast as it goes
    /// [default: max; and once 100k in batches of up to 64]
    #[arg(long, value_name = "IDS,…", value_delimiter = ',', value_parser = limit, help_heading = "How it is used")]
    pub rate: Vec<Limit>,

    /// Bytes of a message that is decoded between two checks, one by one or read ahead; then time
    /// is what a check adds [default: 0]
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = capacity, help_heading = "How it is used")]
    pub work: Vec<usize>,

    /// The pages of all memory: `default`, as they come; `huge`: the allocator is told to ask for
    /// huge ones, as hapax does by itself [default: default]
    #[arg(long, value_name = "PAGES,…", value_delimiter = ',', value_parser = huge_pages(), help_heading = "How it is used")]
    pub pages: Vec<bool>,

    /// Runs of each case [default: 3; with --quick 1]
    #[arg(long, value_name = "N", value_parser = rounds,
          help_heading = "What is measured")]
    pub rounds: Option<u32>,

    /// Only strategies with one of these in their names, whatever the case of letters
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',', help_heading = "What is measured")]
    pub only: Vec<String>,

    /// No strategies with one of these in their names
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',', help_heading = "What is measured")]
    pub without: Vec<String>,

    /// Of the ids that are generated; without it, another one each time
    #[arg(long, value_name = "N", value_parser = seed, help_heading = "What is measured")]
    pub seed: Option<u64>,

    /// All strategies on few ids, one round, within a minute
    #[arg(long, help_heading = "What is measured")]
    pub quick: bool,

    /// Print the strategies, and why some cannot be measured
    #[arg(long, help_heading = "What is measured")]
    pub list: bool,

    /// Write the report as JSON
    #[arg(long, value_name = "FILE", help_heading = "Where results go")]
    pub save: Option<PathBuf>,

    /// Write the report as one page that needs nothing else
    #[arg(long, value_name = "FILE", help_heading = "Where results go")]
    pub html: Option<PathBuf>,

    /// Measure the case on standard input: what this command starts for each run
    #[arg(long, hide = true, exclusive = true)]
    pub case: bool,
}

impl BenchArgs {
    /// Returns the number of runs of each case.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }
}

/// The ids that come.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Which ids come")]
pub struct WorkloadArgs {
    /// The pattern of redeliveries: uniform, zipf[:EXPONENT] [default: uniform]
    #[arg(long, value_name = "SHAPE,…", value_delimiter = ',', value_parser = shape)]
    pub workload: Vec<Shape>,

    /// The share of checks that are redeliveries, at most 0.99; of zipf the exponent says it
    /// [default: 0.1]
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', value_parser = share)]
    pub duplicates: Vec<f64>,

    /// The kind of ids: u64, uuid-text (36 bytes), key200 (200) [default: u64]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = id_kind)]
    pub ids: Vec<IdKind>,
}

/// Ids that are handed over at once, or one by one and read ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Batch(usize),
    Ahead,
}

fn way(text: &str) -> Result<Way, String> {
    if text == "ahead" { Ok(Way::Ahead) } else { capacity(text).map(Way::Batch) }
}

/// Parses the pages of memory: true for huge ones.
fn huge_pages() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["default", "huge"]).map(|pages| pages == "huge")
}

/// A number above 0, or no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit(pub Option<f64>);

fn limit(text: &str) -> Result<Limit, String> {
    if text == "max" {
        return Ok(Limit(None));
    }
    let number = rate(text).map_err(|_| format!("`{text}` is neither a number nor `max`"))?;
    if number > 0.0 { Ok(Limit(Some(number))) } else { Err("it has to be above 0".to_string()) }
}

fn rounds(text: &str) -> Result<u32, String> {
    whole(text, 1..=1_000)
}

fn share(text: &str) -> Result<f64, String> {
    within(text, |share| (0.0..=0.99).contains(&share), "it has to be from 0 to 0.99")
}

fn within(text: &str, is_valid: impl Fn(f64) -> bool, otherwise: &str) -> Result<f64, String> {
    let number = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if is_valid(number) { Ok(number) } else { Err(otherwise.to_string()) }
}

fn shape(text: &str) -> Result<Shape, String> {
    let (name, parameter) = text.split_once(':').map_or((text, None), |(name, parameter)| (name, Some(parameter)));
    let shape = match name {
        "zipf" => {
            let valid = |exponent: f64| exponent > 0.0 && exponent <= 4.0;
            let exponent = within(parameter.unwrap_or("1"), valid, "an exponent has to be above 0, and at most 4")?;
            return Ok(Shape::Zipf { exponent });
        }
        "uniform" => Shape::Uniform,
        _ => return Err("it is neither uniform nor zipf".to_string()),
    };
    match parameter {
        None => Ok(shape),
        Some(parameter) => Err(format!("{name} has no parameter `{parameter}`; only zipf has one")),
    }
}

fn id_kind(text: &str) -> Result<IdKind, String> {
    match text {
        "u64" => Ok(IdKind::U64),
        "uuid-text" => Ok(IdKind::UuidText),
        "key200" => Ok(IdKind::Key200),
        _ => Err("it is none of u64, uuid-text and key200".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood() {
        assert_eq!((limit("max"), limit("1_000")), (Ok(Limit(None)), Ok(Limit(Some(1_000.0)))));
        assert_eq!((way("ahead"), way("1k")), (Ok(Way::Ahead), Ok(Way::Batch(1_000))));
        assert!(way("behind").is_err());
        assert_eq!(limit("20k"), Ok(Limit(Some(20_000.0))));
        assert!(["0", "-1", "nan", "inf", "x", ""].iter().all(|text| limit(text).is_err()));
        assert_eq!((share("0.5"), share("0")), (Ok(0.5), Ok(0.0)));
        assert!(share("1").is_err() && share("-0.1").is_err() && share("nan").is_err());
        assert_eq!(shape("zipf:1.2"), Ok(Shape::Zipf { exponent: 1.2 }));
        assert_eq!((shape("zipf"), shape("uniform")), (Ok(Shape::Zipf { exponent: 1.0 }), Ok(Shape::Uniform)));
        assert!(shape("zipf:0").is_err() && shape("uniform:1").is_err() && shape("trace").is_err());
        assert_eq!((id_kind("uuid-text"), id_kind("key200")), (Ok(IdKind::UuidText), Ok(IdKind::Key200)));
        assert!(id_kind("bytes").is_err());
    }
}
