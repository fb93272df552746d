//! The command, from outside.

mod bench;
mod beside;
mod bytes;
mod count;
mod ends;
mod files;
mod inputs;
mod json;
#[cfg(unix)]
mod kills;
mod memory;
mod people;
#[cfg(unix)]
mod pipes;
mod planning;
mod refusing;
mod resume;
mod spill;
mod state;
mod times;
mod told;
mod traces;

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Returns `hapax filter` with these options.
fn filter(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.arg("filter").args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command on this input.
fn run(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    std::thread::scope(|scope| {
        // The command may end before it has read everything.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("the command ends")
    })
}

/// Waits until something is so. The limit only ends a test that would hang.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the output for this input, without any failure.
fn printed(options: &[&str], input: &[u8]) -> Vec<u8> {
    let output = run(filter(options), input);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{options:?}: {} {errors}", output.status);
    output.stdout
}

/// Runs every command in `golden/`, and compares its output and exit code. `TRYCMD=overwrite`
/// writes the current output; read the difference.
#[test]
fn golden() {
    trycmd::TestCases::new().case("tests/integration/filter/golden/*.trycmd");
}
