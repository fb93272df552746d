//! Errors of building the engine, in terms of the command line.

use super::options::FilterArgs;
use crate::error::CommandError;
use hapax::{Error, JournalError};
use hapax_plan::{Bytes, BytesNeeded};

/// Describes why there is no engine with these options.
pub fn failure(error: Error, args: &FilterArgs) -> CommandError {
    let said = match &error {
        Error::Journal(error) => of_journal(error, args),
        Error::InvalidOption { option, got, expected } => of_option(option, got, expected, args),
        Error::OutOfMemory { tier, bytes, source } => {
            let (needed, source) =
                (BytesNeeded(*bytes as f64), in_units(&source.to_string(), |bytes| Bytes(bytes).to_string()));
            let option = match *tier {
                "history" => "--history",
                _ if args.capacity.is_some() => "--capacity",
                _ => "--max-memory",
            };
            Some(CommandError::Usage(format!("{option}: the {tier} needs {needed} of memory: {source}")))
        }
        _ => None,
    };
    said.unwrap_or_else(|| error.into())
}

fn of_journal(error: &JournalError, args: &FilterArgs) -> Option<CommandError> {
    let state = args.state.as_ref()?.display();
    match (error, args.seed) {
        (JournalError::NotOurs { what: "key", .. }, Some(seed)) => Some(CommandError::Usage(format!(
            "--seed {seed}: the state in {state} was begun with another seed, which its ids are kept with; leave --seed \
             out, or give another directory"
        ))),
        (JournalError::Damaged { .. }, _) => {
            Some(CommandError::Io(format!("--state {state}: {error} (here: --damage keep)")))
        }
        (JournalError::Untrusted { path, what, got, expected, remedy }, _) => {
            let remedy = match *what {
                "it" => remedy,
                _ => {
                    "give it to this user and let nobody else write (chown, chmod go-w), or name a directory that is \
                     not there yet, which is made"
                }
            };
            let path = path.display();
            Some(CommandError::Io(format!("--state {state}: {path}: {what} is {got}, expected {expected}; {remedy}")))
        }
        _ => None,
    }
}

/// Describes a wrong option, which the engine calls as its builder's method; it says bytes as
/// numbers.
fn of_option(option: &str, got: &str, expected: &str, args: &FilterArgs) -> Option<CommandError> {
    let name = match option {
        "window" => "--window",
        "capacity" => "--capacity",
        "max_memory_bytes" => "--max-memory",
        "history.horizon" => "--history, its horizon",
        "history.false_positive_rate" => "--history, its false-positive rate",
        "history.ids" => "--history, its number of ids",
        "event_time.max_skew" => "--max-skew",
        "event_time.max_jump" => "--max-jump",
        _ => return None,
    };
    let got = match got.parse() {
        Ok(bytes) if option == "max_memory_bytes" => Bytes(bytes).to_string(),
        _ => got.to_string(),
    };
    let expected = in_units(expected, |bytes| BytesNeeded(bytes).to_string());
    let expected = match (expected.split_once(" that the capacity of "), args.capacity) {
        (Some((bytes, takes)), Some(_)) => format!("{bytes} that --capacity {takes}"),
        // The smallest one was tried, and nobody has asked for it.
        (Some((bytes, _)), None) => bytes.replace("at least the ", "at least "),
        (None, _) => expected,
    };
    Some(CommandError::Usage(format!("{name}: got {got}, expected {expected}")))
}

/// Formats the numbers of bytes within a text with `print`.
fn in_units(text: &str, print: fn(f64) -> String) -> String {
    let Some((parts, last)) = text.rsplit_once(" bytes") else { return text.to_string() };
    let mut printed = String::new();
    for part in parts.split(" bytes") {
        let words = part.trim_end_matches(|c: char| c.is_ascii_digit());
        printed += words;
        match part[words.len()..].parse() {
            Ok(bytes) => printed += &print(bytes),
            Err(_) => printed += " bytes",
        }
    }
    printed + last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(error: Error, options: &[&str]) -> String {
        let args = FilterArgs::parse(options.iter().copied()).unwrap();
        failure(error, &args).message().unwrap_or_default().to_string()
    }

    #[test]
    fn options_are_called_by_their_own_names_and_bytes_have_units() {
        let builder = || hapax::Dedup::builder().capacity(100_000);
        let too_little = || builder().max_memory_bytes(1 << 20).build().unwrap_err();
        assert_eq!(
            said(too_little(), &["--capacity", "100k", "--max-memory", "1M"]),
            "--max-memory: got 1 MiB, expected at least the 2.02 MiB that --capacity 100000 takes"
        );
        assert_eq!(said(too_little(), &["--max-memory", "1M"]), "--max-memory: got 1 MiB, expected at least 2.02 MiB");
        let enough = crate::args::units::bytes("2.02M").unwrap();
        assert!(builder().max_memory_bytes(enough).build().is_ok(), "what is shown suffices");
        let source = std::io::Error::other("2097152 bytes are available");
        let error = Error::OutOfMemory { tier: "history", bytes: 3 << 30, source };
        let expected = "--history: the history needs 3 GiB of memory: 2 MiB are available";
        assert_eq!(said(error, &[]), expected);
    }

    #[test]
    fn numbers_of_bytes_are_printed_with_their_units_wherever_they_stand() {
        let print = |bytes| format!("{bytes} B");
        for (text, printed) in [
            ("", ""),
            ("no bytes", "no bytes"),
            ("7 bytes", "7 B"),
            ("at least 7 bytes, at most 90 bytes of it", "at least 7 B, at most 90 B of it"),
            ("7 and bytes, x7 bytes", "7 and bytes, x7 B"),
        ] {
            assert_eq!(in_units(text, print), printed);
        }
    }

    /// Every option of the engine that the command sets has a name in the command.
    #[test]
    fn nothing_is_called_as_in_the_library() {
        use std::time::Duration;
        let second = Duration::from_secs(1);
        let builder = || hapax::Dedup::builder().capacity(10).window(second);
        for wrong in [
            builder().window(Duration::ZERO),
            builder().capacity(0),
            builder().history(testkit::history(Duration::ZERO, 0.1, 1)),
            builder().history(testkit::history(second, 2.0, 1)),
            builder().history(testkit::history(second, 0.1, 0)),
        ] {
            let said = said(wrong.build().unwrap_err(), &[]);
            assert!(said.starts_with("--") && !said.contains('`'), "{said}");
        }
    }
}
