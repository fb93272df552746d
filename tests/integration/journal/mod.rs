//! The memory of a journal, and its behaviour when something goes wrong.

mod appending;
mod damage;
mod directories;
mod failing;
mod flushing;
mod opening;
mod restarts;
#[cfg(unix)]
mod trusting;

use hapax::{
    Attempt, Builder, ClaimOptions, Damage, Dedup, Error, JournalError, JournalOptions, Loss, ManualClock, Recovery,
    SyncMode, Tier, Timestamp, Verdict,
};
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(600);

/// A directory of a test's own, removed when this is dropped.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hapax-journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }

    /// Returns the builder of an engine in this directory, on this clock.
    fn builder(&self, clock: &ManualClock, options: JournalOptions) -> Builder {
        Dedup::builder().window(WINDOW).capacity(10_000).clock(clock.clone()).journal(&self.0, options)
    }

    fn open(&self, clock: &ManualClock) -> Dedup {
        self.builder(clock, JournalOptions::new()).build().unwrap()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let mut segments: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "hapax")).collect();
        segments.sort();
        segments
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let is_gone = !self.0.exists();
        assert!(is_gone || std::thread::panicking(), "{}: an engine still writes to it", self.0.display());
    }
}

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000_000));
    clock
}

fn recovery(dedup: &Dedup) -> Recovery {
    dedup.stats().journal.unwrap().recovery
}

/// Runs a future on the simplest executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
