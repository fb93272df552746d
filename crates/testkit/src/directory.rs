//! A temporary directory, which is removed with its test; copies of files.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub struct Directory(PathBuf);

impl Directory {
    pub fn new(test: &str) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hapax-{test}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in it.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Files of processes that are not gone yet may come after it.
        for _ in 0..50 {
            if std::fs::remove_dir_all(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Copies a file, or a directory that is not there yet, with its owners.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).stderr(Stdio::null()).status()?;
    if copied.success() { Ok(()) } else { Err(io::Error::other("it is not copied")) }
}

/// Copies the directory of an open store as a kill leaves it: all of one moment. The database
/// writes in the background, so a copy may be of several; of one that is still equal when it is
/// complete, nothing has changed meanwhile.
pub fn copy_of_one_moment(from: &Path, to: &Path) {
    let run = |program: &str, with: &str| {
        let run = Command::new(program).arg(with).args([from, to]).output();
        run.unwrap().status.success()
    };
    let is_moment = |_| {
        let _ = std::fs::remove_dir_all(to);
        run("cp", "-r") && run("diff", "-rq")
    };
    assert!((0..1000).any(is_moment), "{} never stops changing", from.display());
}
