//! `hapax verify`: the judge of `hapax-testing` over a history that any program has recorded.

mod format;
mod history;
mod report;

use crate::error::CommandError;
use crate::printable;
use hapax_testing::{Problem, check_history};
use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::PathBuf;

pub const ABOUT: &str = "Says whether a recorded history could be that of a correct deduplication.\n\n\
    The history is a file of JSON lines: the terms (for how long an id is remembered), then a line for each call, \
    with its thread, its id, the times before and after it, and its answer. docs/verify.md has the format, and \
    recorders for Python, Go and TypeScript.";

const HELP: &str = "\
Exit codes:
  0    some order of the calls explains every answer
  1    none does: the finding is printed, with the shortest history that shows it
  2    the history cannot be read or decided, or the options make no sense

Examples:
  hapax verify history.jsonl
  my-consumer --record - | hapax verify --json -";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct VerifyArgs {
    /// File of the history; `-` is standard input
    pub history: PathBuf,

    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: VerifyArgs) -> Result<(), CommandError> {
    let place = args.history.display().to_string();
    let input: Box<dyn Read> = if args.history.as_os_str() == "-" {
        Box::new(stdin())
    } else {
        Box::new(File::open(&args.history).map_err(|error| CommandError::Usage(format!("{place}: {error}")))?)
    };
    let history = history::read(BufReader::with_capacity(1 << 16, input), &place)?;
    let checked = check_history(&history.operations, &history.terms.semantics(), history.terms.evicted());
    if let Err(violation) = &checked
        && violation.problem == Problem::TooManyOrders
    {
        let id = history.ids.name(violation.id);
        return Err(CommandError::Usage(format!(
            "{place}: {} of the calls of id {id:?} overlap, too many to try all orders: have fewer threads check one id at \
             a time",
            violation.operations.len()
        )));
    }
    let text = if args.json { report::json(&history, &checked) } else { report::text(&history, &checked) };
    printable::page(&text)?;
    checked.map(drop).map_err(|_| CommandError::Found)
}
