//! The window's own durability: a log of what was accepted, in files that each cover a slice of time.
//!
//! [`format`] is what is on the disk; [`commit`] gathers what callers append and makes it durable in groups, through [`writer`] and [`disk`];
//! [`recovery`] reads it again. [`snapshot`] is all of the memory in one file. [`dedup`] is what users see of it.

mod append;
mod commit;
mod dedup;
mod disk;
mod error;
#[cfg(test)]
mod faults;
mod format;
mod inspect;
mod options;
mod recovery;
pub(crate) mod sizing;
mod snapshot;
mod stats;
mod writer;

pub use append::Appending;
pub use commit::{Flush, Position};
pub use error::JournalError;
pub use inspect::{Inspection, RunInfo, SegmentInfo, inspect};
pub use options::{JournalOptions, SyncMode};
pub use recovery::{Recovery, Torn};
pub(crate) use snapshot::Snapshot;
pub use stats::JournalStats;

use self::commit::Shared;
use self::disk::System;
use self::format::Kind;
use self::recovery::{Found, Lock};
use self::writer::{Rules, Writer};
use crate::clock::Reading;
use crate::digest::Digest;
use crate::engine::Engine;
use crate::{Error, Timestamp};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A journal that is open.
pub(crate) struct Journal {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    recovery: Recovery,
    deferred: bool,
    /// Held until the thread has ended.
    _lock: Lock,
}

/// A journal whose directory is locked, and which is not read yet.
pub(crate) struct Opened {
    found: Found,
    options: JournalOptions,
}

impl Opened {
    pub(crate) fn new(directory: &Path, options: JournalOptions) -> Result<Self, Error> {
        options.validate()?;
        Ok(Opened { found: Found::open(directory, &options)?, options })
    }

    /// The seed that its digests were made with, if it has any.
    pub(crate) fn seed(&self, wanted: Option<u64>) -> Result<Option<u64>, Error> {
        Ok(self.found.seed(wanted)?)
    }

    /// Tells an engine what the journal has, and goes on from there.
    pub(crate) fn replay(self, engine: &Engine, seed: u64, retention: Duration) -> Result<Journal, Error> {
        let Opened { found, options } = self;
        let mut digests = Vec::new();
        let recovered = found.replay(|run| match run.kind {
            Kind::Accepted => {
                digests.clear();
                digests.extend(run.ids());
                engine.restore(&digests, run.at);
            }
            Kind::Forgotten => run.ids().for_each(|id| {
                engine.window.forget_at_rest(id);
            }),
            Kind::Cleared => engine.clear_tiers(),
            Kind::Time => engine.window.advance(run.at),
            Kind::Position => {}
        })?;
        let rules = Rules {
            directory: found.directory.clone(),
            seed,
            sync: options.sync,
            max_disk_bytes: options.max_disk_bytes,
            segment_length: options.segment_length.unwrap_or_else(|| sizing::segment_length(retention)),
            retention,
        };
        let disk = System { file_mode: options.file_mode };
        let writer = Writer::new(disk, rules, recovered.segments, recovered.number, recovered.positions);
        let shared = Arc::new(Shared::new(&options));
        let thread = shared.start(writer).map_err(JournalError::io("start the thread of", &found.directory))?;
        Ok(Journal {
            shared,
            thread: Some(thread),
            recovery: recovered.recovery,
            deferred: options.deferred,
            _lock: found.lock,
        })
    }
}

impl Journal {
    /// Whether it is to learn of what checks accept.
    #[inline(always)]
    pub(crate) fn notes_checks(&self) -> bool {
        !self.deferred
    }

    /// Ids were accepted; from now on `flush` is about them, too.
    #[inline]
    pub(crate) fn accepted(&self, at: Reading, ids: impl IntoIterator<Item = Digest>) {
        self.shared.append(Kind::Accepted, at, ids);
    }

    pub(crate) fn forgotten(&self, at: Reading, id: Digest) {
        self.shared.append(Kind::Forgotten, at, [id]);
    }

    pub(crate) fn cleared(&self, at: Timestamp) {
        self.shared.append_event(Kind::Cleared, at);
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, nobody is left to be told.
            let _ = thread.join();
        }
    }
}
