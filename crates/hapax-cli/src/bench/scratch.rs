//! A directory that exists as long as the command runs.

use crate::error::CommandError;
use hapax_bench::measure::servers;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A directory that is removed, with its contents, when this is dropped.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Result<Self, CommandError> {
        let base = servers::parent();
        let made = tempfile::Builder::new().prefix("hapax-").tempdir_in(&base);
        made.map(Scratch).map_err(|error| CommandError::input(&base, error))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A server whose process was killed may still be writing.
        for _ in 0..20 {
            if std::fs::remove_dir_all(self.path()).is_ok() || !self.path().exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
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
