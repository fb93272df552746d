//! Forks, and the state of an engine in a child.
//!
//! A fork copies the memory and the thread that forks, and nothing else. A lock that another thread
//! holds at that moment would be locked for ever in the child, and open files belong to both
//! processes. So:
//!
//! - forks are counted, and the owner of a file knows in which process it was opened ([`Origin`]);
//! - state that lives in memory alone is at rest while the process forks ([`Rest`]): its locks are
//!   taken before, and given back in both processes;
//! - the child closes the lock of each journal ([`LockFile`]), so that it is the parent's alone,
//!   also if the parent dies and the child lives.
//!
//! The handlers are those of `pthread_atfork`. Calls that bypass them (`clone`, `vfork`, the system
//! call itself) are detected by the process id, where there is time for that.

#![cfg_attr(any(not(unix), modelled), allow(dead_code, reason = "without forks nothing need be at rest"))]

#[cfg(all(unix, not(modelled)))]
mod handlers;
#[cfg(any(not(unix), modelled))]
#[path = "process/no_handlers.rs"]
mod handlers;

pub(crate) use self::handlers::at_rest_in_forks;

use crate::sync::{Ordering, StdAtomicU64};
use std::fs::File;
use std::mem::ManuallyDrop;

/// The number of forks, of those that are counted, that led to this process.
static FORKS: StdAtomicU64 = StdAtomicU64::new(0);

/// A number that differs from one process to the next, so that a number that was drawn before a
/// fork is another one in each. 0 in a process that is no fork.
static SALT: StdAtomicU64 = StdAtomicU64::new(0);

/// Returns a number that no two children of one parent have.
pub fn salt() -> u64 {
    // Relaxed: it changes as `FORKS` does.
    SALT.load(Ordering::Relaxed)
}

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    forks: u64,
    id: u32,
}

impl Origin {
    /// Returns this process. From now on its forks are counted.
    pub(crate) fn here() -> std::io::Result<Self> {
        handlers::install()?;
        Ok(Origin { forks: forks(), id: std::process::id() })
    }

    /// Returns true in that process, and false in a child of it.
    #[inline(always)]
    pub(crate) fn is_here(self) -> bool {
        self.forks == forks()
    }

    /// Returns the same, also for a child that was made without the system's library. Costs a
    /// system call.
    pub(crate) fn is_surely_here(self) -> bool {
        self.is_here() && self.id == std::process::id()
    }

    /// Returns the id of the process.
    pub(crate) fn id(self) -> u32 {
        self.id
    }
}

#[inline(always)]
fn forks() -> u64 {
    // Relaxed: it changes in a child before that has a second thread, and never after that.
    FORKS.load(Ordering::Relaxed)
}

/// The order in which locks are taken before a fork: the order in which calls nest them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    StreamTime,
    Claims,
    Growth,
}

const RANKS: [Rank; 3] = [Rank::StreamTime, Rank::Claims, Rank::Growth];

/// Something that must be at rest while the process forks.
pub(crate) trait Rest: Send + Sync + 'static {
    fn rank(&self) -> Rank;
    /// Takes the locks, each for a moment at most when no fork is under way.
    fn hold<'s>(&'s self, held: &mut Vec<Box<dyn Held + 's>>);
}

/// A lock that is held while the process forks.
pub(crate) trait Held {
    /// Repairs, in the child, the state that threads have left that do not exist there.
    fn in_child(&mut self) {}
}

/// A file with a lock, which is this process's alone: a child has neither the file nor the lock.
pub(crate) struct LockFile {
    file: ManuallyDrop<File>,
    origin: Origin,
}

impl LockFile {
    pub(crate) fn new(file: File, origin: Origin) -> Self {
        handlers::close_in_child(&file);
        LockFile { file: ManuallyDrop::new(file), origin }
    }

    /// Returns the file, unless this is a child, in which it is closed.
    pub(crate) fn file(&self) -> Option<&File> {
        self.origin.is_here().then_some(&*self.file)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            // The file was closed when the child began; its number may be another file's by now.
            return;
        }
        handlers::do_not_close_in_child(&self.file);
        if self.origin.is_surely_here() {
            // Closing it is not enough: a child that was made just now has it open as well, until
            // its own program begins.
            let _ = self.file.unlock();
        }
        // SAFETY: nothing uses the file after this, as this is the end of its only owner.
        unsafe { ManuallyDrop::drop(&mut self.file) }
    }
}
