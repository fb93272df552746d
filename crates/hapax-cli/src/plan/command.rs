//! Formats the command that applies a plan.

use super::options::PlanArgs;
use crate::args::{LineArgs, delimiter, of_records};
use crate::filter::source::named;
use crate::shell::quoted;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};
use hapax_plan::Plan;
use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the options of `hapax filter` for a plan, with the options for lines that were given
/// here.
pub fn filter_options(plan: &Plan) -> String {
    let given = given_of_records(std::env::args_os().skip(1));
    given.into_iter().chain([plan.filter_options()]).collect::<Vec<_>>().join(" ")
}

/// Returns the options that say how records are read, as they were given: `plan`, and its options.
fn given_of_records(command_line: impl Iterator<Item = OsString>) -> Vec<String> {
    let plan = PlanArgs::augment_args(clap::Command::new("plan"));
    // They were understood before, as a part of the whole command line.
    let Ok(given) = plan.clone().try_get_matches_from(command_line) else { return Vec::new() };
    let of_records = of_records();
    let is_given = |arg: &&clap::Arg| {
        let id = arg.get_id();
        of_records.contains(id) && given.value_source(id.as_str()) == Some(ValueSource::CommandLine)
    };
    let option = |arg: &clap::Arg| {
        let name = arg.get_long()?;
        if !arg.get_action().takes_values() {
            return Some(format!("--{name}"));
        }
        // Of an option with several values, all of them.
        let values = given.get_raw(arg.get_id().as_str())?.map(|value| value.to_string_lossy().into_owned());
        let mut values: Vec<_> = values.collect();
        if arg.get_value_delimiter().is_some() {
            values = vec![values.join(",")];
        }
        // A value that begins with a dash would be taken for an option.
        let between = |value: &str| if value.starts_with('-') { '=' } else { ' ' };
        let options = values.iter().map(|value| format!("--{name}{}{}", between(value), quoted(value)));
        Some(options.collect::<Vec<_>>().join(" "))
    };
    let said = plan.get_arguments().filter(is_given).filter_map(option);
    said.chain(said_by_names(&given)).collect()
}

/// Returns the delimiter that the names of files say, which the printed command is not given.
fn said_by_names(given: &ArgMatches) -> Option<String> {
    let lines = LineArgs::from_arg_matches(given).ok().filter(|lines| lines.format.delimiter.is_none())?;
    let files = named::files(&given.get_many("from")?.cloned().collect::<Vec<PathBuf>>()).ok()?;
    let delimiter = lines.of_files(&files).ok()?.format.delimiter?;
    (delimiter != delimiter::DEFAULT).then(|| delimiter::option(delimiter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_records_are_repeated() {
        let given = |options: &[&str]| {
            let words = ["plan", "--from", "f"].iter().chain(options);
            given_of_records(words.map(OsString::from)).join(" ")
        };
        assert_eq!(given(&["--window", "1m"]), "");
        let options = ["--header", "--time-format", "ms", "--delimiter=,", "--column", "the id", "--time-field=2"];
        let expected = "--column 'the id' --time-field 2 --time-format ms --delimiter , --header";
        assert_eq!(given(&options), expected);
        assert_eq!(given(&["--column", "id", "--null"]), "--column id --null");
        assert_eq!(given(&["--column", "order,the line"]), "--column 'order,the line'");
        assert_eq!(given(&["--field", "2", "--field", "5"]), "--field 2,5");
        let json =
            ["--json", "/a", "--json", "/b,c", "--loose", "--ignore-case", "--time-json=/t", "--time-zone=-05:00"];
        let expected = "--json /a --json /b,c --loose --ignore-case --time-json /t --time-zone=-05:00";
        assert_eq!(given(&json), expected);
        let of_csv = ["plan", "--from", "f.csv.gz", "--column", "id", "--header"];
        let options = given_of_records(of_csv.into_iter().map(OsString::from)).join(" ");
        assert_eq!(options, "--column id --header --delimiter ,");
        assert_eq!(given(&["--regex=-(.)", "--on-bad", "skip"]), "--regex='-(.)' --on-bad skip");
    }
}
