//! A temporary directory, and optionally a server in it, that do not outlive this process.
//!
//! Dropping it stops the server and removes the directory. That is not enough when this process is
//! killed. So a watcher (a shell, in a process group of its own, out of reach of the terminal's
//! interrupt) reads from a pipe of which only this process holds the other end. When that end is
//! closed, by us or by our end, whatever that was, the watcher does the rest. Signals on the death
//! of a parent would work on Linux alone, and refer to the thread that started the server.

use super::programs;
use crate::strategy::Failure;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The watcher's script. The last line that it reads is the server's process id, or empty. It gives
/// the server ten seconds.
const WATCHER: &str = r#"
while read -r line; do server=$line; done
if [ -n "$server" ]; then
    kill -s "$2" "$server" 2>/dev/null
    tries=0
    while kill -0 "$server" 2>/dev/null && [ "$tries" -lt 500 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    kill -s KILL "$server" 2>/dev/null
fi
rm -rf -- "$1"
"#;

/// The longest time that a server may take to end, until it is killed.
const END: Duration = Duration::from_secs(5);

/// The longest path of a socket that all systems take.
const SOCKET_BYTES_MAX: usize = 103;

#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    watcher: Option<Watcher>,
    server: Option<Child>,
}

#[derive(Debug)]
struct Watcher {
    process: Child,
    pipe: Option<ChildStdin>,
}

impl Watched {
    /// Creates an empty directory.
    pub fn directory(name: &str) -> Result<Watched, Failure> {
        Self::made(name, "KILL")
    }

    /// Creates an empty directory for a server that ends at this signal, and for its socket.
    pub fn for_server(name: &str, signal: &str) -> Result<Watched, Failure> {
        let path = parent().join(format!("{}XXXXXX/.s.PGSQL.5432", prefix(name)));
        let bytes = path.as_os_str().len();
        if bytes > SOCKET_BYTES_MAX {
            let wrong = "is too long for that of a Unix socket, which may have";
            return Err(format!("the path {} {wrong} {SOCKET_BYTES_MAX} bytes: set TMPDIR", path.display()).into());
        }
        Self::made(name, signal)
    }

    fn made(name: &str, signal: &str) -> Result<Watched, Failure> {
        let made = tempfile::Builder::new().prefix(&prefix(name)).tempdir_in(parent());
        let path = made.map_err(|error| format!("no directory can be made in {}: {error}", parent().display()))?.keep();
        // From here on the directory is removed again, whatever fails.
        let mut watched = Watched { path, watcher: None, server: None };
        if cfg!(unix) {
            watched.watcher = Some(Watcher::start(&watched.path, signal)?);
        }
        Ok(watched)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file with the output of programs in it.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Starts the server, and waits until it answers.
    pub fn serve(
        &mut self,
        mut command: Command,
        patience: Duration,
        answers: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        let (name, log) = (command.get_program().to_string_lossy().into_owned(), self.log());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let server = programs::logged(&mut command, &log)?.spawn();
        let server = self.server.insert(server.map_err(|error| format!("{name} does not start: {error}"))?);
        if let Some(watcher) = &mut self.watcher {
            watcher.tell(&server.id().to_string())?;
        }
        let begun = Instant::now();
        while !answers() {
            if let Some(status) = server.try_wait()? {
                return Err(format!("{name} ended with {status}; it said: {}", programs::tail(&log)).into());
            }
            if begun.elapsed() >= patience {
                return Err(format!("no answer of {name} in {patience:?}; it said: {}", programs::tail(&log)).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns the server's process.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let running = self.server.as_mut().and_then(|server| matches!(server.try_wait(), Ok(None)).then_some(server));
        if let Some(watcher) = &mut self.watcher {
            if running.is_none() {
                // The process id may be another's by now.
                let _ = watcher.tell("");
            }
            watcher.pipe = None;
        }
        if let Some(server) = running {
            ends_within(server, END);
        }
        if let Some(watcher) = &mut self.watcher {
            ends_within(&mut watcher.process, END);
        }
        // Removes what the watcher has left, or everything if there is no watcher.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Watcher {
    fn start(directory: &Path, signal: &str) -> Result<Watcher, Failure> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(WATCHER).arg("hapax-watcher").arg(directory).arg(signal);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.spawn().map_err(|error| format!("sh does not start: {error}"))?;
        let pipe = process.stdin.take();
        Ok(Watcher { process, pipe })
    }

    fn tell(&mut self, line: &str) -> std::io::Result<()> {
        self.pipe.as_mut().map_or(Ok(()), |pipe| writeln!(pipe, "{line}"))
    }
}

/// Waits for a process, and kills it if that takes too long.
fn ends_within(process: &mut Child, patience: Duration) {
    let begun = Instant::now();
    while let Ok(None) = process.try_wait() {
        if begun.elapsed() >= patience {
            let _ = process.kill();
            let _ = process.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn prefix(name: &str) -> String {
    format!("hapax-{name}-{}-", std::process::id())
}

/// Returns where temporary directories are made. `/tmp` often is memory, where nothing is durable
/// and everything fast. So unless TMPDIR says otherwise, it is the place that has to survive a
/// restart.
pub fn parent() -> PathBuf {
    let lasting = PathBuf::from("/var/tmp");
    match std::env::var_os("TMPDIR").is_none() && lasting.is_dir() {
        true => lasting,
        false => std::env::temp_dir(),
    }
}

/// Returns the bytes that the files of a directory take. Some may be removed meanwhile.
pub(super) fn bytes_on_disk(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_on_disk(&entry.path()),
        Ok(metadata) => allocated(&metadata),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Returns the bytes that are allocated: files may be sparse, or allocated ahead of their contents.
#[cfg(unix)]
fn allocated(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

#[cfg(not(unix))]
fn allocated(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}
