//! The command `hapax`; and, compiled by `cargo fuzz`, the fuzz target `filter`.
#![cfg_attr(fuzzing, no_main)]
#![cfg_attr(fuzzing, allow(dead_code, reason = "the fuzzer calls the parsers only"))]

mod args;
#[cfg(feature = "bench")]
mod bench;
mod closed;
mod failure;
mod filter;
mod journal;
mod plan;
mod records;
mod shell;

use args::{Args, Command, JournalCommand};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Args::try_parse() {
        Ok(args) => closed::output().and_then(|()| run(args.command)),
        Err(error) => unparsed(&error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                // There may be no reader of standard error.
                let _ = writeln!(std::io::stderr(), "hapax: {message}");
            }
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Filter(options) => filter::run(*options),
        Command::Plan(options) => plan::run(*options),
        #[cfg(feature = "bench")]
        Command::Bench(options) => bench::run(*options),
        Command::Journal(JournalCommand::Inspect { path, runs }) => journal::inspect(&path, runs),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "hapax", &mut script);
            print(&script)
        }
        Command::Man { command } => man_page(command.as_deref()),
    }
}

/// Ends with what clap says of a command line that it does not understand, unless that is about a
/// command that this build has been made without.
fn unparsed(error: &clap::Error) -> Result<(), Failure> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) => Err(left_out(name).unwrap_or_else(|| error.exit())),
        _ => error.exit(),
    }
}

/// Describes how to get a command that this build has been made without.
fn left_out(name: &str) -> Option<Failure> {
    (name == "bench" && !cfg!(feature = "bench")).then(|| {
        Failure::Usage(
            "this build has no `bench`, which compiles all that it compares; to get it, in a checkout of hapax:\n  \
             cargo install --locked --path crates/hapax-cli --features bench"
                .to_string(),
        )
    })
}

fn print(page: &[u8]) -> Result<(), Failure> {
    std::io::stdout().write_all(page).map_err(Failure::output)
}

/// Prints the manual page of `hapax`, or of one of its commands.
fn man_page(command: Option<&str>) -> Result<(), Failure> {
    let mut hapax = Args::command();
    hapax.build();
    let of = match command {
        None => hapax,
        Some(name) => {
            let command = hapax.find_subcommand(name).cloned();
            let missing = || Failure::Usage(format!("there is no command `{name}`"));
            command.ok_or_else(|| left_out(name).unwrap_or_else(missing))?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(of).render(&mut page).map_err(Failure::output)?;
    print(&page)
}
