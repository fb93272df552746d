//! Temporary places for strategies that need more than memory: an empty directory, or a server that
//! is started for the run.
//!
//! A server listens on a Unix socket in a temporary directory, which also holds its data; no other
//! program knows of it. It ends, and the directory is removed, when [`Provided`] is dropped, also
//! by a panic. If this process is killed, a watcher does it: see `watched.rs`.

mod file_system;
#[cfg(unix)]
mod postgres;
mod processes;
mod programs;
#[cfg(unix)]
mod redis;
#[cfg(all(test, unix))]
mod tests;
mod watched;

pub use self::watched::parent;

use self::watched::Watched;
use crate::strategy::{Failure, Needs, Place};
use std::path::Path;
use std::time::Duration;

/// The longest time until a server answers.
const PATIENCE: Duration = Duration::from_secs(30);

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
    place: Place,
    watched: Option<Watched>,
    /// Reads how many bytes it takes now.
    bytes: fn(&Path) -> Option<u64>,
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
    if let Some(missing) = missing(needs) {
        return Err(missing.into());
    }
    let (watched, bytes): (_, fn(&Path) -> Option<u64>) = match needs {
        Needs::Nothing => (None, |_| None),
        Needs::Directory => (Some(Watched::directory("directory")?), |path| Some(watched::bytes_on_disk(path))),
        #[cfg(unix)]
        Needs::Redis => (Some(redis::start()?), |path| redis::used_bytes(path).ok()),
        #[cfg(unix)]
        Needs::Postgres => (Some(postgres::start()?), |path| Some(postgres::used_bytes(path))),
        #[cfg(not(unix))]
        Needs::Redis | Needs::Postgres => unreachable!("it is missing"),
    };
    let place = match (&watched, needs) {
        (None, _) => Place::Memory,
        #[cfg(unix)]
        (Some(watched), Needs::Redis) => Place::Server(redis::address(watched.path())),
        #[cfg(unix)]
        (Some(watched), Needs::Postgres) => Place::Server(postgres::address(watched.path())),
        (Some(watched), _) => Place::Directory(watched.path().to_owned()),
    };
    let mut provided = Provided { place, watched, bytes, empty_bytes: 0 };
    provided.empty_bytes = provided.bytes_now().unwrap_or(0);
    Ok(provided)
}

/// Returns why this machine cannot provide for a need, if it cannot.
pub fn missing(needs: Needs) -> Option<String> {
    match needs {
        Needs::Nothing | Needs::Directory => None,
        #[cfg(unix)]
        Needs::Redis => redis::program().err(),
        #[cfg(unix)]
        Needs::Postgres => postgres::programs().err(),
        #[cfg(not(unix))]
        Needs::Redis | Needs::Postgres => Some("servers are started on Unix only".to_owned()),
    }
}

/// Returns the name and version of the server that [`provide`] starts, as `Redis 7.0.15`; for a
/// directory, its file system, as `file system ext4`. (If that is memory, as `tmpfs`, nothing there
/// is durable, and syncing is free: TMPDIR says where else directories are to be.)
pub fn version(needs: Needs) -> Option<String> {
    match needs {
        Needs::Nothing => None,
        Needs::Directory => file_system::of(&watched::parent()).map(|name| format!("file system {name}")),
        #[cfg(unix)]
        Needs::Redis => redis::version(),
        #[cfg(unix)]
        Needs::Postgres => postgres::version(),
        #[cfg(not(unix))]
        Needs::Redis | Needs::Postgres => None,
    }
}

impl Provided {
    /// Returns its address: for [`Plan::place`](crate::strategy::Plan::place).
    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// Returns the resources that it has used. Where the system or the server does not tell, there
    /// is nothing.
    pub fn usage(&self) -> Usage {
        let bytes = self.bytes_now().map(|bytes| bytes.saturating_sub(self.empty_bytes));
        Usage { cpu: self.server().and_then(processes::cpu_of_tree), bytes }
    }

    fn bytes_now(&self) -> Option<u64> {
        self.watched.as_ref().and_then(|watched| (self.bytes)(watched.path()))
    }

    /// Returns the process of the server.
    fn server(&self) -> Option<u32> {
        self.watched.as_ref()?.process()
    }
}
