//! The directory: checks that it is a store's, and translates errors about it.

use super::BACKEND;
use hapax_store::backend::committer::Place;
use hapax_store::{ErrorKind, StoreError};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The file that the library writes after everything else in a new directory.
const MARKER: &str = "version";
/// The size of a finished marker: three bytes that name the library, and the version, which are
/// written one after the other.
const MARKER_BYTES: u64 = 4;
const LOCK: &str = "lock";
const KEYSPACES: &str = "keyspaces";
const FIRST_LOG: &str = "0.jnl";

/// Checks that a store is there, or can be made there. The remains of a store whose creation was
/// interrupted are removed: it has acknowledged nothing, and the library creates no database where
/// such remains are.
pub(super) fn prepare(path: &Path, must_exist: bool) -> Result<(), StoreError> {
    let io = |error| failed(fjall::Error::Io(error), "opening it");
    if must_exist && !is_made(path).map_err(io)? {
        return Err(misconfigured("there is no store"));
    }
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
        Ok(metadata) if !metadata.is_dir() => return Err(misconfigured("this is no directory")),
        Ok(_) => {}
    }
    if is_made(path).map_err(io)? {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if ![MARKER, LOCK, KEYSPACES, FIRST_LOG].iter().any(|ours| name == *ours) {
            let wrong = format!("no store is there, but {}: give an empty or a new directory", name.display());
            return Err(misconfigured(wrong));
        }
    }
    let lock = File::options().create(true).truncate(false).write(true).open(path.join(LOCK)).map_err(io)?;
    if lock.try_lock().is_err() {
        return Err(failed(fjall::Error::Locked, "opening it"));
    }
    // Another process may have created it in the meantime.
    if !is_made(path).map_err(io)? {
        for remains in [MARKER, FIRST_LOG] {
            match fs::remove_file(path.join(remains)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
                _ => {}
            }
        }
    }
    // Unlocks explicitly, and does not only close: a child process that was forked just now has the
    // file open as well, until its own program begins.
    lock.unlock().map_err(io)
}

/// Returns true if the library has finished creating a database there. A shorter marker was still
/// being written.
fn is_made(path: &Path) -> io::Result<bool> {
    match fs::metadata(path.join(MARKER)) {
        Ok(marker) => Ok(marker.len() >= MARKER_BYTES || fs::read_dir(path.join(KEYSPACES))?.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn foreign(keyspace: &str) -> StoreError {
    misconfigured(format!("a database is there, but its keyspace {keyspace:?} is none of a store's"))
}

fn misconfigured(wrong: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong)
}

/// Notes the place of a directory that was just opened. The library does not keep the marker open.
pub(super) fn place(path: &Path) -> Result<Place, StoreError> {
    Place::held(path.join(MARKER), BACKEND)
}

/// Returns the store's error for an error of the library.
pub(super) fn failed(error: fjall::Error, doing: &str) -> StoreError {
    let kind = match &error {
        fjall::Error::Locked => {
            let wrong = "another process, or another store of this one, has it open";
            return StoreError::caused(ErrorKind::Conflict, BACKEND, wrong, error);
        }
        fjall::Error::InvalidVersion(_) => ErrorKind::Misconfigured,
        fjall::Error::Io(io) | fjall::Error::Storage(fjall::LsmError::Io(io)) => io_kind(io.kind()),
        fjall::Error::Poisoned => ErrorKind::Unavailable,
        _ => ErrorKind::Corrupt,
    };
    StoreError::caused(kind, BACKEND, format!("{doing} failed"), error)
}

fn io_kind(kind: io::ErrorKind) -> ErrorKind {
    match kind {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ErrorKind::Misconfigured
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    }
}
