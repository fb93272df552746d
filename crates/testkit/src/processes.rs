//! Processes that end with their test, also by a panic.

use crate::children;
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Sends a signal to processes, or to groups of them (`-17`). Returns false if one is not there.
/// (The shell has it built in; a program `kill` is not on every machine.)
pub fn send(signal: &str, to: impl IntoIterator<Item = String>) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$@\"", "sh", signal, "--"]).args(to).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A server or a consumer, which is killed when this is dropped. Its output is in a file.
pub struct Process {
    child: Child,
}

impl Process {
    pub fn start(mut command: Command, log: &Path, directory: &Path) -> Self {
        let file = File::options().append(true).create(true).open(log).expect("a log");
        let errors = file.try_clone().expect("the same log");
        command.stdin(Stdio::null()).stdout(file).stderr(errors).current_dir(directory);
        // Servers that have helpers are killed with them.
        command.process_group(0);
        Process { child: children::started(command) }
    }

    /// Kills it, as `kill -9`.
    pub fn kill(&mut self) {
        if !self.has_ended() {
            self.signal("KILL");
        }
        let _ = self.child.wait();
    }

    /// Interrupts it, as Ctrl-C. Returns how it ended.
    pub fn interrupt(&mut self) -> ExitStatus {
        self.signal("INT");
        await_that("its end", || self.has_ended());
        self.child.wait().expect("it has ended")
    }

    /// Stops it where it is, as a machine that hangs.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Sends a signal to it and to the processes that it has started.
    fn signal(&self, signal: &str) {
        assert!(send(signal, [format!("-{}", self.child.id())]), "kill -s {signal}");
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns true if a program is not installed; prints that the test is skipped.
pub fn is_missing(program: &str) -> bool {
    let missing = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err();
    if missing {
        crate::skipped_without(program, program);
    }
    missing
}

/// Returns a port on loopback that is free.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
    listener.local_addr().expect("the address that was bound").port()
}

/// Waits until a server listens there.
pub fn await_port(port: u16, log: &Path) {
    await_until(log, || TcpStream::connect(("127.0.0.1", port)).is_ok());
}

/// The time after which what is waited for does not come: much longer than a busy machine takes to
/// start RabbitMQ. (The most that a store waits.)
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until a condition holds, and not for ever. If it does not come, the log is shown.
pub fn await_until(log: &Path, so: impl FnMut() -> bool) {
    wait(so, || format!("{}: {}", log.display(), std::fs::read_to_string(log).unwrap_or_default()));
}

/// Waits until a condition holds, and not for ever. If it does not come, it is named.
pub fn await_that(what: &str, so: impl FnMut() -> bool) {
    wait(so, || what.to_owned());
}

fn wait(mut so: impl FnMut() -> bool, said: impl Fn() -> String) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "nothing happens; {}", said());
        std::thread::sleep(Duration::from_millis(5));
    }
}
