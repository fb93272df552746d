//! Finds programs, and runs those that end soon.

use crate::strategy::Failure;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the folders of the PATH.
pub(super) fn folders() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// Returns the first of these programs that is on the PATH.
pub(super) fn on_path(names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| folders().into_iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
}

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
