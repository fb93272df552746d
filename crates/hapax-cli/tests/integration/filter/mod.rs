//! The command, from outside.

mod bench;
mod beside;
mod bytes;
mod count;
mod ends;
mod files;
pub(crate) mod inputs;
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
#[cfg(unix)]
use std::process::Child;
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the exit code, the output, and the messages.
fn said(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn code_and_errors(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}

/// Returns the output, the messages, and the exit code for this input.
fn said_of(options: &[&str], input: &str) -> (String, String, Option<i32>) {
    let (code, printed, errors) = said(&run(filter(options), input.as_bytes()));
    (printed, errors, code)
}

/// Sends a signal to a process.
#[cfg(unix)]
fn send(signal: i32, child: &Child) {
    // SAFETY: it was started here and not waited for, so its number is nobody else's.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Runs every command in `golden/`, and compares its output and exit code. `TRYCMD=overwrite`
/// writes the current output; read the difference.
#[test]
fn golden() {
    trycmd::TestCases::new().case("tests/integration/filter/golden/*.trycmd");
}
