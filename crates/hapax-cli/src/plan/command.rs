//! Formats the command that applies a plan.

use crate::args::{Args, OF_RECORDS};
use crate::shell::quoted;
use clap::CommandFactory;
use clap::parser::ValueSource;
use hapax::plan::Plan;
use std::ffi::OsString;

/// Returns the options of `hapax filter` for a plan, with the options for lines that were given
/// here.
pub fn filter_options(plan: &Plan) -> String {
    let of_records = of_records(std::env::args_os());
    of_records.into_iter().chain([plan.filter_options()]).collect::<Vec<_>>().join(" ")
}

/// Returns the options that say how records are read, as they were given to `hapax plan`.
fn of_records(command_line: impl Iterator<Item = OsString>) -> Vec<String> {
    let (hapax, matches) = (Args::command(), Args::command().get_matches_from(command_line));
    let (Some(given), Some(plan)) = (matches.subcommand_matches("plan"), hapax.find_subcommand("plan")) else {
        return Vec::new();
    };
    let is_given = |id: &str| OF_RECORDS.contains(&id) && given.value_source(id) == Some(ValueSource::CommandLine);
    let option = |arg: &clap::Arg| {
        let name = arg.get_long()?;
        if !arg.get_action().takes_values() {
            return Some(format!("--{name}"));
        }
        let value = given.get_raw(arg.get_id().as_str())?.next()?.to_string_lossy();
        // A value that begins with a dash would be taken for an option.
        let between = if value.starts_with('-') { '=' } else { ' ' };
        Some(format!("--{name}{between}{}", quoted(&value)))
    };
    plan.get_arguments().filter(|arg| is_given(arg.get_id().as_str())).filter_map(option).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_records_are_repeated() {
        let given = |options: &[&str]| {
            let words = ["hapax", "plan", "--from", "f"].iter().chain(options);
            of_records(words.map(OsString::from)).join(" ")
        };
        assert_eq!(given(&["--window", "1m"]), "");
        let options = ["--header", "--time-format", "ms", "--delimiter=,", "--column", "the id", "--time-field=2"];
        let expected = "--column 'the id' --time-field 2 --time-format ms --delimiter , --header";
        assert_eq!(given(&options), expected);
        assert_eq!(given(&["--regex=-(.)", "--on-bad", "skip"]), "--regex='-(.)' --on-bad skip");
    }
}
