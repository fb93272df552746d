//! The command `hapax`.

mod args;
mod failure;
mod filter;

use args::{Args, Command};
use clap::{CommandFactory, Parser};
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Filter(options) => filter::run(&options),
        Command::Completions { shell } => print(|out| {
            clap_complete::generate(shell, &mut Args::command(), "hapax", out);
            Ok(())
        }),
        Command::Man { command } => print(|out| man_page(command.as_deref(), out)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                eprintln!("hapax: {message}");
            }
            failure.exit_code()
        }
    }
}

fn print(text: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<(), Failure> {
    let mut page = Vec::new();
    text(&mut page).and_then(|()| std::io::stdout().write_all(&page)).map_err(Failure::output)
}

/// The manual page of `hapax`, or of one of its commands.
fn man_page(command: Option<&str>, out: &mut Vec<u8>) -> std::io::Result<()> {
    let mut hapax = Args::command();
    hapax.build();
    let page = match command {
        None => hapax,
        Some(name) => match hapax.find_subcommand(name) {
            Some(command) => command.clone(),
            None => return Err(std::io::Error::other(format!("there is no command `{name}`"))),
        },
    };
    clap_mangen::Man::new(page).render(out)
}
