//! Temporary places for strategies that need more than memory: an empty directory, or a server that
//! is started for the run.
//!
//! A server listens on a Unix socket in a temporary directory, which also holds its data; no other
//! program knows of it. It ends, and the directory is removed, when [`Provided`] is dropped, also
//! by a panic. It stays in this process's group, so that who started this process as the leader of
//! one can end both.

use crate::strategy::{Failure, Needs, Place};
use std::fs;
#[cfg(unix)]
use std::os::unix::{fs::MetadataExt as _, process::CommandExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest time until a server is ready, and the longest that it may take to end.
const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(5);

/// The user and the group `nobody` of Linux.
#[cfg(unix)]
const NOBODY: u32 = 65_534;

/// A place of a run's own. It is removed when this is dropped.
///
/// ```
/// use hapax_bench::measure::servers::{missing, provide};
/// use hapax_bench::strategy::{Needs, Place};
///
/// assert_eq!(missing(Needs::Directory), None);
/// let provided = provide(Needs::Directory)?;
/// let Place::Directory(path) = provided.place() else { unreachable!() };
/// assert!(path.is_dir());
/// drop(provided);
/// assert!(!path.exists());
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
#[derive(Debug)]
pub struct Provided {
    needs: Needs,
    server: Option<Child>,
    directory: Option<TempDir>,
    /// The bytes that it takes while it is empty.
    empty_bytes: u64,
}

/// The resources that a place uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of the server, of all its processes, since it was started; take the
    /// difference of two for a span. Linux only.
    pub cpu: Option<Duration>,
    /// Bytes beyond those that it held when it was empty: memory in use of Redis, files of
    /// PostgreSQL's databases without its log, or files of a directory.
    pub bytes: Option<u64>,
}

/// Provides for a need: starts a server, or makes a directory.
///
/// # Errors
///
/// The reason that [`missing`] returns, or why the server did not start, with its log.
pub fn provide(needs: Needs) -> Result<Provided, Failure> {
    let mut provided = Provided { needs, server: None, directory: None, empty_bytes: 0 };
    if needs == Needs::Nothing {
        return Ok(provided);
    }
    let directory = tempfile::Builder::new().prefix("hapax-").tempdir_in(parent())?;
    let path = provided.directory.insert(directory).path().to_owned();
    match needs {
        Needs::Redis => {
            let mut redis = Command::new(redis_server()?);
            // In memory only: it keeps neither snapshots nor a log.
            redis.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", "socket"]);
            provided.serve(redis, &path)?;
        }
        Needs::Postgres => {
            let folder = postgres_folder()?;
            let initdb = ["--no-locale", "--encoding=UTF8", "--username=postgres", "--no-sync", "-A", "trust", "data"];
            run(unprivileged(&folder.join("initdb"), &path)?.args(initdb), &path)?;
            let mut postgres = unprivileged(&folder.join("postgres"), &path)?;
            postgres.args(["-D", "data", "-c", "listen_addresses=", "-k"]).arg(&path);
            provided.serve(postgres, &path)?;
        }
        Needs::Nothing | Needs::Directory => {}
    }
    provided.empty_bytes = provided.bytes().unwrap_or(0);
    Ok(provided)
}

/// Returns why this machine cannot provide for a need, if it cannot.
pub fn missing(needs: Needs) -> Option<String> {
    match needs {
        Needs::Nothing | Needs::Directory => None,
        Needs::Redis => redis_server().err(),
        Needs::Postgres => postgres_folder().err(),
    }
}

/// Returns where temporary directories are made. `/tmp` often is memory, where nothing is durable
/// and everything fast. So unless TMPDIR says otherwise, it is the place that has to survive a
/// restart.
pub fn parent() -> PathBuf {
    let lasting = PathBuf::from("/var/tmp");
    if std::env::var_os("TMPDIR").is_none() && lasting.is_dir() { lasting } else { std::env::temp_dir() }
}

impl Provided {
    /// Returns its address: for [`Plan::place`](crate::strategy::Plan::place).
    pub fn place(&self) -> Place {
        let Some(directory) = &self.directory else { return Place::Memory };
        let path = directory.path();
        match self.needs {
            Needs::Redis => Place::Server(format!("redis+unix://{}", path.join("socket").display())),
            Needs::Postgres => Place::Server(format!("host='{}' user=postgres dbname=postgres", path.display())),
            Needs::Nothing | Needs::Directory => Place::Directory(path.to_owned()),
        }
    }

    /// Returns the resources that it has used. Where the system or the server does not tell, there
    /// is nothing.
    pub fn usage(&self) -> Usage {
        let cpu = self.server.as_ref().and_then(|server| cpu_of(server.id()));
        Usage { cpu, bytes: self.bytes().map(|bytes| bytes.saturating_sub(self.empty_bytes)) }
    }

    fn bytes(&self) -> Option<u64> {
        let path = self.directory.as_ref()?.path();
        match self.needs {
            Needs::Redis => redis_bytes(&self.place()),
            // Its log does not count: parts of it are made ahead and used again.
            Needs::Postgres => Some(bytes_on_disk(&path.join("data/base"))),
            Needs::Nothing | Needs::Directory => Some(bytes_on_disk(path)),
        }
    }

    /// Starts the server in its directory, and waits until it says that it is ready.
    fn serve(&mut self, mut command: Command, path: &Path) -> Result<(), Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = logged(&mut command, path)?.spawn().map_err(|error| format!("{name} does not start: {error}"))?;
        self.server = Some(started);
        let begun = Instant::now();
        while !said(path).contains("eady to accept connections") {
            let ended = self.server.as_mut().and_then(|server| server.try_wait().ok().flatten());
            let wrong = match ended {
                Some(status) => format!("{name} ended with {status}"),
                None if begun.elapsed() >= START => format!("{name} is not ready after {START:?}"),
                None => {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                }
            };
            return Err(format!("{wrong}; it said: {}", said(path)).into());
        }
        Ok(())
    }
}

impl Drop for Provided {
    fn drop(&mut self) {
        let Some(server) = &mut self.server else { return };
        // At this signal PostgreSQL ends its children first, and leaves no shared memory behind.
        let signal = if self.needs == Needs::Postgres { "QUIT" } else { "TERM" };
        let kill = format!("kill -s {signal} {}", server.id()); // the shell's own, which is everywhere
        let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
        let begun = Instant::now();
        while matches!(server.try_wait(), Ok(None)) && begun.elapsed() < END {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = server.kill(); // it has ended, as a rule
        let _ = server.wait();
    }
}

fn redis_server() -> Result<PathBuf, String> {
    let found = ["redis-server", "valkey-server"].iter().find_map(|name| which::which(name).ok());
    found.ok_or_else(|| "neither redis-server nor valkey-server is on the PATH".to_owned())
}

/// Returns the folder of PostgreSQL's programs. Debian keeps them off the PATH; the newest version
/// is taken.
fn postgres_folder() -> Result<PathBuf, String> {
    let on_path = which::which("initdb").ok().and_then(|path| Some(path.parent()?.to_owned()));
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |entry: &fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let newest = versions.max_by_key(number).map(|version| version.path().join("bin"));
    let has_all = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    let wrong = "initdb and postgres are neither on the PATH nor in /usr/lib/postgresql/*/bin";
    on_path.into_iter().chain(newest).find(has_all).ok_or_else(|| wrong.to_owned())
}

/// Returns a command that is not run by root, which PostgreSQL refuses to be, nor with options in
/// the environment; and lets it have the directory.
#[cfg_attr(not(unix), allow(unused_variables))]
fn unprivileged(program: &Path, directory: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(program);
    std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")).for_each(|(name, _)| {
        command.env_remove(name);
    });
    #[cfg(unix)]
    if [0, NOBODY].contains(&directory.metadata()?.uid()) {
        std::os::unix::fs::chown(directory, Some(NOBODY), Some(NOBODY))?;
        command.uid(NOBODY).gid(NOBODY);
    }
    Ok(command)
}

/// Runs a program to its end.
fn run(command: &mut Command, path: &Path) -> Result<(), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = logged(command, path)?.status().map_err(|error| format!("{name} does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed with {status}; it said: {}", said(path)).into()) }
}

/// Lets a command work in a directory, and write to a log there.
fn logged<'a>(command: &'a mut Command, path: &Path) -> Result<&'a mut Command, Failure> {
    let log = fs::OpenOptions::new().create(true).append(true).open(path.join("log"))?;
    Ok(command.current_dir(path).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log))
}

/// Returns the last lines of the log, for an error.
fn said(path: &Path) -> String {
    let text = fs::read(path.join("log")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// Returns the bytes that Redis's allocator has given out, if it answers.
fn redis_bytes(place: &Place) -> Option<u64> {
    #[cfg(feature = "redis")]
    if let Place::Server(address) = place {
        let mut connection = redis::Client::open(address.as_str()).ok()?.get_connection().ok()?;
        let text: String = redis::cmd("INFO").arg("memory").query(&mut connection).ok()?;
        return text.lines().find_map(|line| line.strip_prefix("used_memory:"))?.trim().parse().ok();
    }
    let _ = place;
    None
}

/// Returns the bytes that the files of a directory take. Some may be removed meanwhile.
fn bytes_on_disk(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_on_disk(&entry.path()),
        // Those that are allocated: files may be sparse, or allocated ahead of their contents.
        #[cfg(unix)]
        Ok(metadata) => metadata.blocks() * 512,
        #[cfg(not(unix))]
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Returns the processor time of a process and its children, those that have ended included. None
/// if it is gone, or the system is not Linux.
fn cpu_of(server: u32) -> Option<Duration> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    // Some processes end while they are read.
    let stats = processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    let ticks = stats.filter_map(|stat| ticks_of(server, &stat)).reduce(|sum, ticks| sum + ticks)?;
    // A hundredth of a second, whatever the kernel's own clock is.
    Some(Duration::from_millis(10 * ticks))
}

/// Reads `id (name) state parent … utime stime cutime cstime …` of a process or one of its
/// children: see proc(5). The name may contain anything, but is followed by the last bracket.
fn ticks_of(process: u32, stat: &str) -> Option<u64> {
    let (id, rest) = stat.split_once(' ')?;
    let fields: Vec<&str> = rest.rsplit_once(')')?.1.split_whitespace().collect();
    let is_it = [id, fields.get(1)?].iter().any(|id| id.parse() == Ok(process));
    let times = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok());
    if is_it { times.sum() } else { None }
}

#[cfg(test)]
mod tests;
