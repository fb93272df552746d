#![doc = include_str!("../README.md")]
// Compiled by `cargo fuzz`, it is the fuzz target `filter`.
#![cfg_attr(fuzzing, no_main)]
#![cfg_attr(fuzzing, allow(dead_code, reason = "the fuzzer calls the parsers only"))]

mod args;
#[cfg(feature = "bench")]
mod bench;
mod closed;
mod error;
mod filter;
mod journal;
mod plan;
mod printable;
mod records;
mod shell;
mod signals;
#[cfg(feature = "store")]
mod store;
mod target;

#[cfg(any(feature = "man", test))]
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};
use error::CommandError;
#[cfg(any(feature = "bench", feature = "man"))]
use std::io::Write;
use std::process::ExitCode;

const ABOUT: &str = "Drops repeated lines from files and streams, says how to configure a deduplicator and what that costs, and looks into \
    what one has stored";

#[derive(Debug, Parser)]
#[command(name = "hapax", version, about = ABOUT, after_help = absent(), arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the first line with each id
    // The long text is here, since this doc comment would go before that of the arguments.
    #[command(long_about = filter::ABOUT)]
    Filter(Box<filter::FilterArgs>),
    /// Say how to configure an engine, what it will cost and what it will miss
    #[command(long_about = plan::ABOUT)]
    Plan(Box<plan::PlanArgs>),
    /// Compare ways to deduplicate: how fast, how large, how often wrong
    #[cfg(feature = "bench")]
    Bench(Box<bench::BenchArgs>),
    /// Look into a directory that `filter --state`, or an engine with a journal, has left
    #[command(subcommand)]
    Journal(journal::JournalCommand),
    /// Look into a store (Redis, PostgreSQL, SQLite, fjall): what it has of ids, who handled them;
    /// forget some
    #[cfg(feature = "store")]
    #[command(subcommand)]
    Store(Box<store::StoreCommand>),
    /// Print a completion script for a shell
    #[cfg(feature = "man")]
    Completions { shell: clap_complete::Shell },
    /// Print the manual page of hapax, or of one of its commands
    #[cfg(feature = "man")]
    Man { command: Option<String> },
}

fn main() -> ExitCode {
    let done = match Args::try_parse() {
        Ok(args) => closed::output().and_then(|()| run(args.command)),
        Err(error) => unparsed(&error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                printable::tell(format_args!("hapax: {message}"));
            }
            failure.code().into()
        }
    }
}

fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Filter(options) => filter::run(*options),
        Command::Plan(options) => plan::run(*options),
        #[cfg(feature = "bench")]
        Command::Bench(options) => bench::run(*options),
        Command::Journal(command) => journal::run(command),
        #[cfg(feature = "store")]
        Command::Store(command) => store::run(*command),
        #[cfg(feature = "man")]
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "hapax", &mut script);
            print(&script)
        }
        #[cfg(feature = "man")]
        Command::Man { command } => man_page(command.as_deref()),
    }
}

/// Ends with what clap says of a command line that it does not understand, unless that is about a
/// command that this build has been made without.
fn unparsed(error: &clap::Error) -> Result<(), CommandError> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) => Err(left_out(name).unwrap_or_else(|| error.exit())),
        _ => error.exit(),
    }
}

/// Names the commands that this build has been made without.
fn absent() -> String {
    let names = ["bench", "completions", "man", "store"].into_iter().filter(|name| left_out(name).is_some());
    match names.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => String::new(),
        names => format!("Not in this build, and said how to get when called: {names}"),
    }
}

/// Describes how to get a command that this build has been made without.
fn left_out(name: &str) -> Option<CommandError> {
    let (why, feature) = match name {
        "bench" if !cfg!(feature = "bench") => ("compiles all that it compares", name),
        "completions" | "man" if !cfg!(feature = "man") => ("compiles what writes them", "man"),
        "store" if !cfg!(feature = "store") => ("compiles the clients of all stores", name),
        _ => return None,
    };
    Some(CommandError::Usage(error::left_out(&format!("`{name}`"), why, feature)))
}

#[cfg(any(feature = "bench", feature = "man"))]
fn print(page: &[u8]) -> Result<(), CommandError> {
    std::io::stdout().write_all(page).map_err(CommandError::output)
}

/// Prints the manual page of `hapax`, or of one of its commands.
#[cfg(feature = "man")]
fn man_page(command: Option<&str>) -> Result<(), CommandError> {
    let mut hapax = Args::command();
    hapax.build();
    let of = match command {
        None => hapax,
        Some(name) => {
            let command = hapax.find_subcommand(name).cloned();
            let missing = || CommandError::Usage(format!("there is no command `{name}`"));
            command.ok_or_else(|| left_out(name).unwrap_or_else(missing))?
        }
    };
    // (Else the synopsis has all options, and none with its value.)
    let usage = of.clone().render_usage().to_string();
    let of = of.override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let mut page = Vec::new();
    clap_mangen::Man::new(of).render(&mut page).map_err(CommandError::output)?;
    print(&page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    /// Help opens as documentation does: with a verb or a noun. (`bench` has tests of its own.)
    #[test]
    fn help_opens_with_a_verb_or_a_noun() {
        for command in Args::command().get_subcommands().filter(|command| command.get_name() != "bench") {
            for arg in command.get_arguments() {
                let texts = [arg.get_help().map(ToString::to_string), arg.get_help_heading().map(Into::into)];
                for text in texts.into_iter().flatten() {
                    let words = ["How ", "What ", "Whether ", "Which ", "Where ", "When ", "For how ", "At which "];
                    assert!(!words.iter().any(|word| text.starts_with(word)), "{}: {text}", command.get_name());
                }
            }
        }
    }

    #[test]
    fn long_help_says_more_than_one_line() {
        let says = [("filter", "first sighting of each id"), ("plan", "found out from ids that have come")];
        for (command, says) in says {
            let help = Args::command().find_subcommand_mut(command).unwrap().render_long_help().to_string();
            assert!(help.contains(says), "{help}");
        }
    }
}
