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
use clap::{CommandFactory, Parser};
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = Args::parse().command;
    let done = closed::output().and_then(|()| run(command));
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
            command.ok_or_else(|| Failure::Usage(format!("there is no command `{name}`")))?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(of).render(&mut page).map_err(Failure::output)?;
    print(&page)
}
