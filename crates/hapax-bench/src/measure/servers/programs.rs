//! Runs programs that end soon.

use crate::strategy::Failure;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the output of a program, if it succeeds.
pub(super) fn printed(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program to its end, and kills it after a while. Its output goes into a file.
pub(super) fn run(mut command: Command, log: &Path, patience: Duration) -> Result<(), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = logged(&mut command, log)?.spawn().map_err(|error| format!("{name} does not start: {error}"))?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() < patience => std::thread::sleep(Duration::from_millis(5)),
            None => {
                child.kill()?;
                child.wait()?;
                return Err(format!("{name} took more than {patience:?}; it said: {}", tail(log)).into());
            }
        }
    };
    match status.success() {
        true => Ok(()),
        false => Err(format!("{name} failed with {status}; it said: {}", tail(log)).into()),
    }
}

/// Lets a command write to a file.
pub(super) fn logged<'a>(command: &'a mut Command, log: &Path) -> Result<&'a mut Command, Failure> {
    let open = || std::fs::OpenOptions::new().create(true).append(true).open(log);
    let file = open().map_err(|error| format!("the log {} cannot be written: {error}", log.display()))?;
    Ok(command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file))
}

/// Returns the last lines of a log, for an error.
pub(super) fn tail(log: &Path) -> String {
    const LINES: usize = 12;
    let text = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.len() {
        0 => "nothing".to_owned(),
        count => lines[count.saturating_sub(LINES)..].join("\n"),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_killed_and_what_it_said_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let mut hangs = Command::new("sleep");
        hangs.arg("600");
        // It says nothing, but others have before it: how fast it can speak here is no matter.
        let log = directory.path().join("log");
        std::fs::write(&log, "thinking\n").unwrap();
        let error = run(hangs, &log, Duration::from_millis(100)).unwrap_err().to_string();
        assert!(error.contains("sleep took more than 100ms; it said: thinking"), "{error}");
    }
}
