//! Processes, and pipes between them.

use hapax::{Builder, Dedup, Error, JournalError, JournalOptions};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The seconds after which a process hangs: far more than the busiest machine takes.
const HANGS_AFTER: u32 = 120;

/// Kills this process after this many seconds, whatever it waits for.
pub fn alarm(seconds: u32) {
    // SAFETY: it takes a number and gives one.
    unsafe { libc::alarm(seconds) };
}

/// Forks. The child runs the closure, never returns, and is killed if it hangs. Returns its process
/// id.
pub fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child goes on with the closure, as the test is about that, and then ends.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => become_child(child),
        pid => pid,
    }
}

pub fn become_child(child: impl FnOnce()) -> ! {
    alarm(HANGS_AFTER);
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
    // SAFETY: it ends the process at once.
    unsafe { libc::_exit(if done.is_ok() { 0 } else { 17 }) }
}

/// Waits for a child to end well.
pub fn must_end_well(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: `status` is ours to be written to.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(!libc::WIFSIGNALED(status), "the child was killed by signal {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "the child has failed");
}

/// Makes a pipe: bytes that are written to the second end come out of the first.
pub fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: there is room for two numbers; both are of files that nobody else owns.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    }
}

/// A directory of a case's own, removed when this is dropped.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hapax-fork-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }

    pub fn open(&self) -> Result<Dedup, Error> {
        builder(&self.0).build()
    }

    /// Returns true if another process can open it, one that is no child of a fork.
    pub fn can_be_opened_elsewhere(&self) -> bool {
        let mut child = Part::Open.start(&self.0);
        let status = child.0.wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 3)), "{status}");
        status.success()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn builder(directory: &Path) -> Builder {
    Dedup::builder().capacity(10_000).journal(directory, JournalOptions::new())
}

/// A part of a case that another process plays, started as a program.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Opens a directory: 0 if it can, 3 if the directory is in use.
    Open,
    /// Opens a directory, forks, reports that, and sleeps.
    Parent,
}

/// A process that plays a part. It ends with its case, also if that panics.
pub struct Started(pub Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PART: &str = "HAPAX_FORK_PART";
const DIRECTORY: &str = "HAPAX_FORK_DIRECTORY";

impl Part {
    pub fn asked_for() -> Option<Self> {
        let part = std::env::var(PART).ok()?;
        [Part::Open, Part::Parent].into_iter().find(|known| format!("{known:?}") == part)
    }

    pub fn start(self, directory: &Path) -> Started {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(PART, format!("{self:?}")).env(DIRECTORY, directory);
        Started(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    pub fn run(self) {
        alarm(HANGS_AFTER);
        let directory = PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
        let opened = builder(&directory).build();
        match self {
            Part::Open => match opened {
                Ok(_) => {}
                Err(Error::Journal(JournalError::InUse { .. })) => std::process::exit(3),
                Err(error) => panic!("{error}"),
            },
            Part::Parent => {
                let dedup = opened.unwrap();
                let _ = dedup.check("of the parent");
                // The child lives until the process that started us closes our standard input.
                let child = fork(|| drop(std::io::stdin().read(&mut [0])));
                println!("{child}");
                // Until it is killed.
                loop {
                    std::thread::park();
                }
            }
        }
    }
}
