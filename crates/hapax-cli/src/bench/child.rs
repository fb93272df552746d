//! Runs a case in a process of its own, so that its memory can be told from that of others, and its
//! crash ends nothing else.

use super::huge_pages::HugePages;
use super::interrupt::Interrupt;
use crate::error::CommandError;
use hapax_bench::measure::{Case, Measurement};
use std::fs::File;
use std::io::{BufRead, Read, Seek, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::tempfile_in;

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

/// The circumstances under which processes run.
pub struct Surroundings<'a> {
    /// The directory where they may leave files.
    pub directory: &'a Path,
    pub huge_pages: HugePages,
    pub interrupt: &'a Interrupt,
}

/// Measures a case.
pub fn measure(case: &Case, surroundings: &Surroundings<'_>) -> Result<Measurement, Ended> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "--case"]).env("TMPDIR", surroundings.directory);
    surroundings.huge_pages.tell(&mut command);
    // This process decides what happens at an interrupt from the terminal.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    // Into files: it would block on a full pipe.
    let (answer, complaints) = (tempfile_in(surroundings.directory)?, tempfile_in(surroundings.directory)?);
    command.stdin(Stdio::piped()).stdout(answer.try_clone()?).stderr(complaints.try_clone()?);
    let mut process = Process(command.spawn()?);
    // It stays open: its end tells the process that we have ended.
    let mut stdin = process.0.stdin.take();
    if let Some(stdin) = &mut stdin {
        let mut line = serde_json::to_vec(case).map_err(|error| Ended::Failed(error.to_string()))?;
        line.push(b'\n');
        // A process that has died already has reported why.
        let _ = stdin.write_all(&line);
    }
    let status = process.wait(surroundings.interrupt)?;
    let (answer, complaints) = (said(answer)?, said(complaints)?);
    match serde_json::from_str::<Result<Measurement, String>>(&answer) {
        Ok(seen) if status.success() => seen.map_err(Ended::Failed),
        _ => Err(Ended::Failed(died(status, &complaints))),
    }
}

/// A process that is killed when nobody waits for it any more.
struct Process(Child);

impl Process {
    fn wait(&mut self, interrupt: &Interrupt) -> Result<ExitStatus, Ended> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if interrupt.is_wanted() {
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
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
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
        // When the parent process is gone, nobody needs the result.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
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
