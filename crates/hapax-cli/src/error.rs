//! The ways in which the command can fail.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The reason why the command ends early, or with a message.
#[derive(Debug)]
pub enum CommandError {
    /// The options make no sense (together, or for this input).
    Usage(String),
    /// A file could not be read, or output not be written.
    Io(String),
    /// A file could not be read, whose name is said by whoever knows it.
    Unnamed(io::Error),
    /// A line does not match the options.
    BadInput(String),
    /// All is done, but ids had to be forgotten before their time.
    Forgotten(String),
    /// All is done, but ids of earlier runs are lost.
    Lost(String),
    /// All is done, and strategies gave more wrong answers than they promise, or none at all.
    #[cfg(feature = "bench")]
    Wrong(String),
    /// An interrupt. All that was finished is written.
    #[cfg(feature = "bench")]
    Interrupted,
    /// A signal has asked for an end.
    Signal(i32),
    /// The reader of our output has closed it.
    ClosedPipe,
}

/// Describes how to get what this build has been made without.
pub fn left_out(what: &str, why: &str, feature: &str) -> String {
    format!(
        "this build has no {what}, which {why}; to get it, in a checkout of hapax:\n  \
         cargo install --locked --path crates/hapax-cli --features {feature}"
    )
}

impl CommandError {
    pub const IO: u8 = 1;
    pub const USAGE: u8 = 2; // as clap has it
    pub const BAD_INPUT: u8 = 3;
    pub const FORGOTTEN: u8 = 4;
    pub const LOST: u8 = 5;
    #[cfg(feature = "bench")]
    pub const WRONG: u8 = 1;
    #[cfg(feature = "bench")]
    pub const INTERRUPTED: u8 = 130; // as shells have it

    pub fn input(path: &Path, error: impl Display) -> Self {
        CommandError::Io(format!("{}: {error}", path.display()))
    }

    /// Returns the failure that reading this file has ended with: the error itself, if it is none
    /// of the file's own.
    pub fn reading(path: &Path, error: io::Error) -> Self {
        match error.downcast::<CommandError>() {
            Ok(CommandError::Unnamed(error)) | Err(error) => CommandError::input(path, error),
            Ok(failure) => failure,
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
            CommandError::Unnamed(_) => Some("input could not be read"),
            CommandError::Usage(text) | CommandError::Io(text) | CommandError::BadInput(text) => Some(text),
            CommandError::Forgotten(text) | CommandError::Lost(text) => Some(text),
            #[cfg(feature = "bench")]
            CommandError::Wrong(text) => Some(text),
            #[cfg(feature = "bench")]
            CommandError::Interrupted => Some("interrupted: what was finished is kept"),
            CommandError::ClosedPipe | CommandError::Signal(_) => None,
        }
    }

    pub fn exit_code(&self) -> ExitCode {
        match self {
            CommandError::Usage(_) => ExitCode::from(Self::USAGE),
            CommandError::Io(_) | CommandError::Unnamed(_) => ExitCode::from(Self::IO),
            CommandError::BadInput(_) => ExitCode::from(Self::BAD_INPUT),
            CommandError::Forgotten(_) => ExitCode::from(Self::FORGOTTEN),
            CommandError::Lost(_) => ExitCode::from(Self::LOST),
            #[cfg(feature = "bench")]
            CommandError::Wrong(_) => ExitCode::from(Self::WRONG),
            #[cfg(feature = "bench")]
            CommandError::Interrupted => ExitCode::from(Self::INTERRUPTED),
            CommandError::Signal(signal) => ExitCode::from(Self::of_signal(*signal)),
            CommandError::ClosedPipe => ExitCode::SUCCESS,
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
