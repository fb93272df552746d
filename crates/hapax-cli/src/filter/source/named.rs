//! The files that a command line names: a directory stands for its files, and a pattern for what it
//! matches if no shell has replaced it.

use crate::error::CommandError;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the files, in their order.
///
/// # Errors
///
/// A directory that cannot be read, or has no files.
pub fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut files = Vec::with_capacity(named.len());
    for name in named {
        let mut paths = if is_pattern(name) { matches(name) } else { Vec::new() };
        if paths.is_empty() {
            // Reading it will say so if there is no such file.
            paths.push(name.clone());
        }
        for path in paths {
            if path.is_dir() {
                files.append(&mut within(&path).map_err(|error| CommandError::input(&path, error))?);
            } else {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Returns the ordinary files in a directory that are not hidden, by name.
fn within(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = directory.read_dir()?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = entries.collect::<io::Result<Vec<_>>>()?;
    let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    // One that cannot be looked at is not left out in silence: reading it will say why.
    files.retain(|path| !is_hidden(path) && path.metadata().map_or(true, |meta| meta.is_file()));
    files.sort_unstable();
    let none = || io::Error::other("there is no file in it (hidden ones, and those further below, do not count)");
    if files.is_empty() { Err(none()) } else { Ok(files) }
}

/// Returns true if a name has characters of a pattern, and there is no file that is called so.
fn is_pattern(name: &Path) -> bool {
    let bytes = name.as_os_str().as_encoded_bytes();
    bytes.iter().any(|byte| b"*?[".contains(byte)) && name.symlink_metadata().is_err()
}

/// Returns the files that match a pattern, as a shell does; none if a directory cannot be read.
#[cfg(unix)]
fn matches(pattern: &Path) -> Vec<PathBuf> {
    use std::ffi::{CStr, CString, OsStr};
    use std::os::unix::ffi::OsStrExt;
    let Ok(pattern) = CString::new(pattern.as_os_str().as_bytes()) else { return Vec::new() };
    // SAFETY: it has numbers and pointers, for which zeros are values.
    let mut found: libc::glob_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pattern ends with NUL, and the list is there to be written.
    let failed = unsafe { libc::glob(pattern.as_ptr(), libc::GLOB_ERR, None, &raw mut found) } != 0;
    // SAFETY: the list has as many paths as it says, each of which ends with NUL.
    let path = |i| unsafe { CStr::from_ptr(*found.gl_pathv.add(i)) };
    let path = |i| PathBuf::from(OsStr::from_bytes(path(i).to_bytes()));
    let paths = if failed { Vec::new() } else { (0..found.gl_pathc as usize).map(path).collect() };
    // SAFETY: `glob` has filled it in, also if it has failed, and nothing points into it any more.
    unsafe { libc::globfree(&raw mut found) };
    paths
}

/// Returns none: there are no patterns on this system.
#[cfg(not(unix))]
fn matches(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}
