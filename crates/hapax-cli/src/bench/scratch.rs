//! A directory that exists as long as the command runs.

use crate::failure::Failure;
use hapax_bench::measure::servers;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A directory that is removed, with its contents, when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Result<Self, Failure> {
        let base = servers::parent();
        let process = std::process::id();
        // A process with the same id may have been killed here before.
        for attempt in 0..100 {
            let path = base.join(format!("hapax-{process}-{attempt}"));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Scratch(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::input(&path, error)),
            }
        }
        Err(Failure::input(&base, "there is no free name for a directory in it"))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A server whose process was killed may still be writing.
        for _ in 0..20 {
            match std::fs::remove_dir_all(&self.0) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    std::thread::sleep(Duration::from_millis(50))
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_what_is_in_it() {
        let (one, other) = (Scratch::new().unwrap(), Scratch::new().unwrap());
        assert_ne!(one.path(), other.path());
        std::fs::create_dir(one.path().join("a")).unwrap();
        std::fs::write(one.path().join("a/b"), "c").unwrap();
        let path = one.path().to_path_buf();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }
}
