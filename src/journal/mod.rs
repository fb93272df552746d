//! The window's own durability: a log of accepted ids, in files that each cover a slice of time.
//!
//! In the order of the data: [`append`] and [`commit`] gather what callers append ([`payload`]) and
//! make it durable in groups, through [`writer`] and [`disk`]; [`format`] is the format on the
//! disk, with a [`mark`] that says how far it has come. [`recovery`] reads it again: [`listing`]
//! finds the files, [`scan`] their blocks, [`survey`] everything that there is, [`verdict`] what is
//! missing, [`replay`] what an engine is told, and [`salvage`] keeps the blocks that are whole.
//! [`reopen`] goes on after a failure. [`trust`] says which files are used at all. [`snapshot`] is
//! all of the memory in one file. [`dedup`] is what users see.

mod append;
mod commit;
mod damage;
#[cfg(test)]
mod damaged;
mod dedup;
mod disk;
mod error;
#[cfg(test)]
mod faults;
mod flush;
mod format;
#[cfg(any(fuzzing, all(test, not(modelled))))]
pub(crate) mod fuzzing;
mod inspect;
mod listing;
mod mark;
mod options;
mod payload;
mod recovery;
mod reopen;
mod replay;
#[cfg(test)]
mod restarts;
mod salvage;
mod scan;
#[cfg(any(fuzzing, test))]
#[cfg_attr(fuzzing, allow(dead_code, reason = "tests use the rest"))]
pub(crate) mod simulated;
pub(crate) mod sizing;
mod snapshot;
mod state;
mod stats;
mod survey;
mod trust;
mod verdict;
mod writer;

pub use append::Appending;
pub use commit::Position;
pub use damage::{Defect, Loss};
pub use error::JournalError;
pub use flush::Flush;
pub use inspect::{Inspection, RunInfo, SegmentInfo, inspect};
pub use options::{Damage, JournalOptions, SyncMode};
pub(crate) use recovery::Resumed;
pub use recovery::{Recovery, Torn};
pub use reopen::Reopened;
pub(crate) use snapshot::Snapshot;
pub use stats::JournalStats;

use self::commit::Shared;
pub(crate) use self::disk::Disk;
use self::disk::System;
use self::payload::Kind;
use self::recovery::{Found, Reopening, Told};
use self::writer::{Rules, Writer};
use crate::clock::{ClockStep, Machine, SharedTimeBase, Stamp, TimeBase};
use crate::digest::{Digest, DigestKey, WantedKey};
use crate::engine::Engine;
use crate::process::Origin;
use crate::rules::{Rule, obeys};
use crate::sync::{Ordering, StdAtomicU64};
use crate::{Error, Timestamp};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// An open journal.
pub(crate) struct Journal {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    recovery: Recovery,
    resumed: Resumed,
    time: Arc<SharedTimeBase>,
    deferred: bool,
    /// The latest event, by the window's time, in nanoseconds.
    latest_event: StdAtomicU64,
}

/// The disk and the clocks of a journal.
pub(crate) struct Surroundings {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) machine: Machine,
    /// True if callers write what they flush, rather than a thread; for simulations.
    pub(crate) is_inline: bool,
    /// The default clock there, if not the machine's.
    #[cfg(test)]
    pub(crate) clock: Option<crate::engine_time::SimulatedClock>,
}

/// A journal whose directory is locked, and which is not read yet.
pub(crate) struct Opened {
    found: Found,
    options: JournalOptions,
    machine: Machine,
    is_inline: bool,
    origin: Origin,
}

impl Opened {
    pub(crate) fn new(directory: &Path, options: JournalOptions, machine: Machine) -> Result<Self, Error> {
        options.validate()?;
        let disk = Arc::new(System::new(&options).map_err(JournalError::io("watch for forks of", directory))?);
        let surroundings = Surroundings {
            disk,
            machine,
            is_inline: false,
            #[cfg(test)]
            clock: None,
        };
        Self::on(surroundings, directory, options)
    }

    pub(crate) fn on(surroundings: Surroundings, directory: &Path, options: JournalOptions) -> Result<Self, Error> {
        options.validate()?;
        let Surroundings { disk, machine, is_inline, .. } = surroundings;
        let origin = Origin::here().map_err(JournalError::io("watch for forks of", directory))?;
        Ok(Opened { found: Found::open(disk, directory, &machine)?, options, machine, is_inline, origin })
    }

    /// Returns the machine that the journal is written on.
    pub(crate) fn machine(&self) -> Machine {
        self.machine.clone()
    }

    /// Returns the key that its digests were made with, if it has any, and if it is the one that is
    /// wanted.
    pub(crate) fn key(&self, wanted: WantedKey) -> Result<Option<DigestKey>, Error> {
        Ok(self.found.key(wanted)?)
    }

    /// Replays the journal into an engine, and goes on from there. `is_empty`: the engine remembers
    /// nothing yet.
    pub(crate) fn replay(
        self,
        engine: &Engine,
        key: DigestKey,
        retention: Duration,
        is_empty: bool,
    ) -> Result<Journal, Error> {
        let Opened { found, options, machine, is_inline, origin } = self;
        let mut digests = Vec::new();
        let wall_nanos = (machine.clocks)().wall_nanos;
        let (damage, sync, boot) = (options.damage, options.sync, machine.boot);
        let reopening = Reopening { damage, sync, key, boot, wall_nanos, retention, is_empty };
        let mut latest_event = 0;
        let recovered = found.replay(&reopening, |told| {
            let run = match told {
                Told::Run(run) => run,
                Told::Time(time) => {
                    latest_event = latest_event.max(time.as_nanos());
                    return engine.window.advance(time.into());
                }
            };
            let at = if obeys(Rule::ExactTimes) { engine.window.within_a_tick(run.at) } else { run.at };
            latest_event = latest_event.max(at.time.as_nanos());
            match run.kind {
                Kind::Accepted => {
                    digests.clear();
                    digests.extend(run.ids());
                    engine.restore(&digests, at);
                }
                Kind::Fingerprinted => {
                    digests.clear();
                    digests.extend(run.fingerprinted().map(|(id, _)| id));
                    engine.restore(&digests, at);
                    run.fingerprinted().for_each(|(id, digest)| engine.restore_fingerprint(id, digest, at));
                }
                Kind::Forgotten => run.ids().for_each(|id| {
                    engine.window.forget_at_rest(id);
                    engine.forget_fingerprint(id);
                }),
                Kind::Cleared => {
                    engine.clear_tiers();
                    engine.claims.clear();
                }
                Kind::Time | Kind::Position | Kind::TimeBase => {}
            }
        })?;
        let time = Arc::new(SharedTimeBase::default());
        time.set(recovered.resumed.base);
        let rules = Rules {
            directory: found.directory.clone(),
            key,
            salt: recovered.salt,
            sync: options.sync,
            max_disk_bytes: options.max_disk_bytes,
            segment_length: options.segment_length.unwrap_or_else(|| sizing::segment_length(retention)),
            retention,
            machine,
            time: Arc::clone(&time),
        };
        let directory = found.directory;
        let writer = Writer::new(found.disk, found.lock, rules, recovered.start)?;
        let shared = Arc::new(Shared::new(&options, writer, is_inline, origin));
        let thread = shared.start().map_err(JournalError::io("start the thread of", &directory))?;
        let (recovery, resumed, deferred) = (recovered.recovery, recovered.resumed, options.deferred);
        let latest_event = StdAtomicU64::new(latest_event);
        Ok(Journal { shared, thread, recovery, resumed, time, deferred, latest_event })
    }
}

impl Journal {
    /// Returns true if the journal is to learn of ids that checks accept.
    #[inline(always)]
    pub(crate) fn notes_checks(&self) -> bool {
        !self.deferred
    }

    /// Notes that an event has come.
    #[inline(always)]
    pub(crate) fn note_event(&self, at: Timestamp) {
        // Relaxed: a maximum, which orders nothing but itself.
        if self.latest_event.load(Ordering::Relaxed) < at.as_nanos() {
            self.latest_event.fetch_max(at.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns the latest event, by the window's time.
    pub(crate) fn latest_event(&self) -> Timestamp {
        Timestamp::from_nanos(self.latest_event.load(Ordering::Relaxed))
    }

    /// Appends ids that were accepted; from now on `flush` is about them, too.
    #[inline]
    pub(crate) fn accepted(&self, at: Stamp, ids: impl IntoIterator<Item = Digest>) {
        self.shared.append(Kind::Accepted, at, ids);
    }

    /// Appends an id that was accepted with a fingerprint.
    pub(crate) fn fingerprinted(&self, at: Stamp, id: Digest, digest: Digest) {
        self.shared.append(Kind::Fingerprinted, at, [id, digest]);
    }

    pub(crate) fn forgotten(&self, at: Stamp, id: Digest) {
        self.shared.append(Kind::Forgotten, at, [id]);
    }

    pub(crate) fn cleared(&self, at: Timestamp) {
        self.shared.append_event(Kind::Cleared, at);
    }

    /// Returns the time of the last write.
    pub(crate) fn resumed(&self) -> Resumed {
        self.resumed
    }

    /// Notes that the clock went on from what was recovered, and that time is counted in this way.
    pub(crate) fn goes_on(&mut self, step: Option<ClockStep>, base: TimeBase) {
        self.recovery.clock_step = step;
        if base != self.time_base() {
            self.set_time_base(base);
        }
    }

    /// Returns the way in which time is counted.
    pub(crate) fn time_base(&self) -> TimeBase {
        self.time.get()
    }

    /// Sets the way in which time is counted from now on.
    pub(crate) fn set_time_base(&self, base: TimeBase) {
        self.time.set(base);
        self.shared.append_time_base(base);
    }

    /// Writes the data that waits to be written, without a thread.
    #[cfg(test)]
    pub(crate) fn step(&self) {
        self.shared.step();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.shared.must_be_here().is_err() {
            // Neither the thread nor the directory is this process's, and a lock may never be given
            // back. (A handle of a thread that does not exist must not be dropped, either.)
            std::mem::forget(self.thread.take());
            return;
        }
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, there is nobody left to tell.
            let _ = thread.join();
        }
        self.shared.finish();
    }
}
