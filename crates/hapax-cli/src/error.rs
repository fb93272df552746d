//! The ways in which the command can fail.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;

/// The reason why the command ends early, or with a message.
#[derive(Debug)]
pub enum CommandError {
    /// The options make no sense (together, or for this input).
    Usage(String),
    /// A file could not be read, or output not be written; or strategies gave more wrong answers
    /// than they promise, or none at all.
    Io(String),
    /// A line does not match the options.
    BadInput(String),
    /// All is done, but ids had to be forgotten before their time.
    Forgotten(String),
    /// All is done, but ids of earlier runs are lost.
    Lost(String),
    /// A signal has asked for an end.
    Signal(i32),
    /// The reader of our output has closed it.
    ClosedPipe,
}

/// Describes how to get what this build has been made without, beside what it has: the command that
/// is installed takes the place of this one.
pub fn left_out(what: &str, why: &str, feature: &str) -> String {
    let mut features = vec![feature];
    let built = [
        ("bench", cfg!(feature = "bench")),
        ("fjall", cfg!(feature = "fjall")),
        ("man", cfg!(feature = "man")),
        ("postgres", cfg!(feature = "postgres")),
        ("redis", cfg!(feature = "redis")),
        ("regex", cfg!(feature = "regex")),
        ("sqlite", cfg!(feature = "sqlite")),
        ("store", cfg!(feature = "store")),
        ("zstd", cfg!(feature = "zstd")),
    ];
    features.extend(built.into_iter().filter(|(_, is_built)| *is_built).map(|(name, _)| name));
    format!(
        "this build has no {what}, which {why}; to get it, in a checkout of hapax:\n  \
         cargo install --locked --path crates/hapax-cli --features {}",
        features.join(",")
    )
}

impl CommandError {
    pub fn input(path: &Path, error: impl Display) -> Self {
        CommandError::Io(format!("{}: {error}", path.display()))
    }

    /// Returns the failure that reading this file has ended with: the error itself, if it is none
    /// of the file's own.
    pub fn reading(path: &Path, error: io::Error) -> Self {
        match error.downcast::<CommandError>() {
            Ok(failure) => failure,
            Err(error) => CommandError::input(path, error),
        }
    }

    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CommandError::ClosedPipe,
            _ => CommandError::Io(format!("standard output: {error}")),
        }
    }

    pub fn message(&self) -> Option<&str> {
        match self {
            CommandError::Usage(text) | CommandError::Io(text) | CommandError::BadInput(text) => Some(text),
            CommandError::Forgotten(text) | CommandError::Lost(text) => Some(text),
            CommandError::ClosedPipe | CommandError::Signal(_) => None,
        }
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            CommandError::Io(_) => 1,
            CommandError::Usage(_) => 2, // as clap has it
            CommandError::BadInput(_) => 3,
            CommandError::Forgotten(_) => 4,
            CommandError::Lost(_) => 5,
            CommandError::Signal(signal) => Self::of_signal(*signal),
            CommandError::ClosedPipe => 0,
        }
    }

    /// Returns the exit code after a signal, as shells have it.
    pub fn of_signal(signal: i32) -> u8 {
        128 | signal as u8
    }
}

/// It may be the reason why a reader fails.
impl std::error::Error for CommandError {}

impl Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().unwrap_or_default())
    }
}

impl From<hapax::Error> for CommandError {
    fn from(error: hapax::Error) -> Self {
        match error {
            hapax::Error::Journal(_) | hapax::Error::NoRandomness { .. } => CommandError::Io(error.to_string()),
            _ => CommandError::Usage(error.to_string()),
        }
    }
}
