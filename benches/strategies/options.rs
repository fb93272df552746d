//! The command line.

use crate::case::Kind;
use std::str::FromStr;

pub const HELP: &str = "\
Compares hapax with other ways to deduplicate, on one stream of ids, with the answers checked.

cargo bench --features bench --bench strategies -- [OPTIONS]

  --live N,N,…      ids within a window                       [1000000,10000000]
  --threads N,N,…   threads that share one strategy           [1,2]
  --ids KIND,…      u64, text (UUIDs of 36 characters)        [u64,text]
  --rounds N        runs of each case, of which the median    [3]
  --only TEXT,…     only strategies with one of these in their names
  --seed N          of the stream of ids                      [random]
  --huge-pages      glibc's malloc asks for huge pages, too (hapax always does)
  --picture FILE    draws the largest comparison of one thread, as SVG
  --quick           100,000 ids, one round
  --help
";

/// What is to be compared.
#[derive(Clone, Debug)]
pub struct Options {
    pub live: Vec<usize>,
    pub threads: Vec<usize>,
    pub kinds: Vec<Kind>,
    pub rounds: usize,
    pub only: Vec<String>,
    pub seed: u64,
    pub huge_pages: bool,
    pub picture: Option<String>,
    pub help: bool,
}

impl Options {
    /// Reads the arguments that follow the program's name.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Options {
            live: vec![1_000_000, 10_000_000],
            threads: vec![1, 2],
            kinds: vec![Kind::U64, Kind::Text],
            rounds: 3,
            only: vec![String::new()],
            seed: random(),
            huge_pages: false,
            picture: None,
            help: false,
        };
        // `cargo test --all-targets` runs benchmarks, too, and passes nothing; `cargo bench` passes `--bench`.
        if args.is_empty() {
            (options.live, options.rounds) = (vec![20_000], 1);
        }
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--live" => options.live = list(value()?)?,
                "--threads" => options.threads = list(value()?)?,
                "--ids" => options.kinds = list(value()?)?,
                "--rounds" => options.rounds = number(value()?)?,
                "--only" => options.only = list(value()?)?,
                "--seed" => options.seed = number(value()?)?,
                "--picture" => options.picture = Some(value()?.clone()),
                "--huge-pages" => options.huge_pages = true,
                "--quick" => (options.live, options.rounds) = (vec![100_000], 1),
                "--help" => options.help = true,
                "--bench" => {}
                _ => return Err(format!("{arg} is not an option; see --help")),
            }
        }
        options.check()
    }

    fn check(self) -> Result<Self, String> {
        let threads_max = self.threads.iter().copied().max().unwrap_or(0);
        if self.threads.contains(&0) || self.rounds == 0 {
            return Err("there has to be a thread and a round".into());
        }
        if self.live.iter().any(|&live| live < 1_000 * threads_max) {
            return Err("fewer than 1,000 live ids a thread are too few to tell ticks apart".into());
        }
        Ok(self)
    }
}

fn list<T: FromStr<Err: ToString>>(text: &str) -> Result<Vec<T>, String> {
    text.split(',').map(number).collect()
}

fn number<T: FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| format!("`{text}`: {}", e.to_string()))
}

/// A number that differs from run to run.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
