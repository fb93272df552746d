//! Runs a case in a process of its own, so that its memory can be told from that of others, and its
//! crash ends nothing else.

use super::Surroundings;
use crate::error::CommandError;
use hapax_bench::measure::{Case, HUGE_PAGES, Measurement};
use std::fs::File;
use std::io::{BufRead, Read, Seek, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The longest time of a case; one that takes longer hangs.
const TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// The time between two checks that it is done.
const LOOK_EVERY: Duration = Duration::from_millis(4);

/// The most that is kept of a process's output.
const SAID_BYTES_MAX: u64 = 1 << 20;

/// The reason why there is no measurement.
#[derive(Debug)]
pub enum Ended {
    /// The user wants the whole command to end.
    Interrupted,
    Failed(String),
}

impl From<std::io::Error> for Ended {
    fn from(error: std::io::Error) -> Self {
        Ended::Failed(error.to_string())
    }
}

/// Measures a case.
pub fn measure(case: &Case, surroundings: &Surroundings) -> Result<Measurement, Ended> {
    let directory = surroundings.directory.path();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "--case"]).env("TMPDIR", directory);
    if case.setting.huge_pages {
        let users = std::env::var("GLIBC_TUNABLES").map_or(String::new(), |users| format!("{users}:"));
        command.env("GLIBC_TUNABLES", users + HUGE_PAGES);
    }
    // This process decides what happens at an interrupt from the terminal, and ends the group: the
    // process, and a server that it has started.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    // Into files: it would block on a full pipe.
    let (answer, complaints) = (tempfile::tempfile_in(directory)?, tempfile::tempfile_in(directory)?);
    command.stdin(Stdio::piped()).stdout(answer.try_clone()?).stderr(complaints.try_clone()?);
    let mut process = Process { child: command.spawn()?, is_over: false };
    // It stays open: its end tells the process that we have ended.
    let mut stdin = process.child.stdin.take();
    if let Some(stdin) = &mut stdin {
        let line = serde_json::to_string(case).map_err(|error| Ended::Failed(error.to_string()))?;
        // A process that has died already has reported why.
        let _ = writeln!(stdin, "{line}");
    }
    let status = process.wait(surroundings)?;
    let (answer, complaints) = (said(answer)?, said(complaints)?);
    match serde_json::from_str::<Result<Measurement, String>>(&answer) {
        Ok(seen) if status.success() => seen.map_err(Ended::Failed),
        _ => Err(Ended::Failed(died(status, &complaints))),
    }
}

/// A process that is killed, with its group, when nobody waits for it any more.
struct Process {
    child: Child,
    /// True if it has ended well, and has left nothing in its group.
    is_over: bool,
}

impl Process {
    fn wait(&mut self, surroundings: &Surroundings) -> Result<ExitStatus, Ended> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.is_over = status.success();
                return Ok(status);
            }
            if surroundings.is_interrupted() {
                return Err(Ended::Interrupted);
            }
            if begun.elapsed() > TIME_MAX {
                return Err(Ended::Failed(format!("it was not done after {} minutes", TIME_MAX.as_secs() / 60)));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_over {
            kill_group(&format!("-{}", self.child.id()));
            let _ = self.child.kill(); // it may have ended
            let _ = self.child.wait();
        }
    }
}

/// Kills a group of processes; `0` is our own.
fn kill_group(group: &str) {
    // The shell has it built in; a program `kill` is not on every machine.
    let _ = Command::new("sh").args(["-c", "kill -s KILL -- \"$1\"", "sh", group]).stderr(Stdio::null()).status();
}

/// Returns the output of a process, as far as it is kept.
fn said(mut file: File) -> std::io::Result<String> {
    file.rewind()?;
    let mut text = Vec::new();
    file.take(SAID_BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Describes how a process has ended, with the last lines of its output.
fn died(status: ExitStatus, complaints: &str) -> String {
    let lines: Vec<&str> = complaints.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines[lines.len().saturating_sub(3)..].join(" / ") {
        last if last.is_empty() => format!("its process ended with {status}"),
        last => format!("its process ended with {status}: {last}"),
    }
}

/// Runs in the started process: measures the case on standard input, and prints the result.
pub fn answer() -> Result<(), CommandError> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| CommandError::Io(error.to_string()))?;
    let case: Case = serde_json::from_str(&line)
        .map_err(|error| CommandError::Usage(format!("standard input is no case: {error}")))?;
    std::thread::spawn(|| {
        // When the parent process is gone, nobody needs the result, nor a server.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        kill_group("0");
        std::process::exit(1);
    });
    let seen = case.measure().map_err(|failure| failure.to_string());
    let answer = serde_json::to_vec(&seen).map_err(|error| CommandError::Io(error.to_string()))?;
    crate::print(&answer)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn the_last_words_of_a_process_are_kept() {
        let status = ExitStatus::from_raw(9);
        assert_eq!(died(status, "\n \n"), format!("its process ended with {status}"));
        assert!(died(status, "a\nb\n\nc\nd\n").ends_with("(SIGKILL): b / c / d"));
    }
}
