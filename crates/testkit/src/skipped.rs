//! The one place that says what tests could not do here, so that the test command can list it.

use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;

/// Says that something is skipped, and why: what is missing, by the name of its package.
///
/// It is printed, which nobody sees of a test that passes; so it is also appended to the file that
/// `HAPAX_SKIPPED` names, if it names one. The same line may be there several times.
pub fn skipped(why: impl Display) {
    let line = format!("SKIPPED: {why}\n");
    print!("{line}");
    let Some(path) = std::env::var_os("HAPAX_SKIPPED") else { return };
    // In one write, which appends whole lines from several processes.
    let appended = File::options().append(true).create(true).open(path);
    let appended = appended.and_then(|mut file| file.write_all(line.as_bytes()));
    appended.expect("a line is added to the file that HAPAX_SKIPPED names");
}

/// Says that tests with a program are skipped, since its package of Debian is not installed.
pub fn skipped_without(program: &str, package: &str) {
    skipped(format_args!("tests with {program}: it is not installed (Debian: {package})"));
}
