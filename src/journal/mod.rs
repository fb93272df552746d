//! The window's own durability: a log of accepted ids, in files that each cover a slice of time.
//!
//! In the order of the data: [`write`] gathers what callers append, until the next checkpoint if
//! there are any (`pending_checkpoint`), and makes it durable in groups, through `writer`; a `mark`
//! says how far it has come, and `reopen` goes on after a failure. [`encoding`] is the format on
//! the disk, `gap` included: what such a failure leaves out. [`files`] is the disk: `trust` says
//! which files are used at all, and `watch` notices that some are gone. [`recover`] reads it again:
//! `listing` finds the files, `scan` their blocks, `survey` everything that there is, `verdict`
//! what is missing, `replay` what an engine is told, and `salvage` keeps the blocks that are whole.
//! [`carry`] says what a copy takes. Nothing here knows the engine, which tells the journal what it
//! accepts, and is told what is read.

pub(crate) mod carry;
mod damage;
pub(crate) mod encoding;
pub(crate) mod files;
#[cfg(any(fuzzing, all(test, not(any(modelled, alone)))))]
pub(crate) mod fuzzing;
mod options;
mod recover;
mod stats;
#[cfg(all(test, not(any(modelled, alone))))]
pub(crate) mod tests;
pub(crate) mod write;

pub use carry::durable_files::DurableSegments;
pub use carry::durable_files::{DurableFile, DurableFiles};
pub use damage::Defect;
pub use options::{Damage, JournalOptions, SyncMode};
pub use recover::inspect::{Inspection, RunInfo, SegmentInfo, inspect};
pub(crate) use recover::recovery::Resumed;
pub use recover::recovery::{Recovery, Torn};
pub use stats::JournalStats;
pub use write::flush::Flush;
pub use write::reopen::Reopened;

pub(crate) use self::encoding::payload::{Kind, Payload};
pub(crate) use self::encoding::positions::too_large;
pub(crate) use self::files::disk::Disk;
use self::files::disk::System;
pub(crate) use self::options::MAX_PENDING_BYTES;
use self::options::Reopening;
use self::recover::recovery::Found;
pub(crate) use self::recover::recovery::Told;
pub(crate) use self::write::commit::Shared;
use self::write::writer::{Rules, Writer};
use crate::clock::{ClockStep, Machine, SharedTimeBase, Stamp, TimeBase};
use crate::digest::{Digest, DigestKey, WantedKey};
use crate::mutation::{Place, Rule, meanwhile, obeys};
use crate::process::Origin;
use crate::sync::{Ordering, StdAtomicU64};
use crate::{Error, JournalError, Timestamp};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// An open journal.
pub(crate) struct Journal {
    pub(crate) shared: Arc<Shared>,
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
    pub(crate) clock: Option<crate::clock::SimulatedClock>,
}

/// A journal whose directory is locked, and which is not read yet.
pub(crate) struct Opened {
    found: Found,
    options: JournalOptions,
    machine: Machine,
    is_inline: bool,
    origin: Origin,
    /// The number of the first block that is in no segment of a long memory, if there is one.
    sealed: Option<u64>,
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
        Ok(Opened { found: Found::open(disk, directory, &machine)?, options, machine, is_inline, origin, sealed: None })
    }

    /// Returns the machine that the journal is written on.
    pub(crate) fn machine(&self) -> Machine {
        self.machine.clone()
    }

    /// Keeps the files of which no segment was made: those from this block on.
    pub(crate) fn keep_unsealed(&mut self, sealed: u64) {
        self.sealed = Some(sealed);
    }

    /// Returns the identity of the journal, if there is one yet; see [`Shared::identity`].
    pub(crate) fn identity(&self) -> Option<u64> {
        self.found.salt()
    }

    /// Returns the disk that it is on.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.found.disk)
    }

    /// Returns true if it is to be opened with what is left of it.
    pub(crate) fn keeps_damage(&self) -> bool {
        self.options.damage == Damage::Keep
    }

    /// Returns true if callers write what they flush, rather than a thread.
    pub(crate) fn is_inline(&self) -> bool {
        self.is_inline
    }

    /// Returns the key that its digests were made with, if it has any, and if it is the one that is
    /// wanted.
    pub(crate) fn key(&self, wanted: WantedKey) -> Result<Option<DigestKey>, Error> {
        Ok(self.found.key(wanted)?)
    }

    /// Reads the journal, and goes on from there. `tell` gets what an engine has to know, in order,
    /// and returns the window's time of it.
    pub(crate) fn replay(
        self,
        key: DigestKey,
        retention: Duration,
        mut tell: impl FnMut(Told<'_>) -> Timestamp,
    ) -> Result<Journal, Error> {
        let Opened { found, options, machine, is_inline, origin, sealed } = self;
        let wall_nanos = (machine.clocks)().wall_nanos;
        let (damage, sync, boot) = (options.damage, options.sync, machine.boot);
        let reopening = Reopening { damage, sync, key, boot, wall_nanos, retention };
        let mut latest_event = Timestamp::default();
        let recovered = found.replay(&reopening, |told| latest_event = latest_event.max(tell(told)))?;
        let time = Arc::new(SharedTimeBase::default());
        time.set(recovered.resumed.base);
        let rules = Rules {
            directory: found.directory.clone(),
            key,
            salt: recovered.salt,
            sync: options.sync,
            max_disk_bytes: options.max_disk_bytes,
            segment_length: options.segment_length.unwrap_or_else(|| write::sizing::segment_length(retention)),
            retention,
            machine,
            time: Arc::clone(&time),
        };
        let directory = found.directory;
        let writer = Writer { sealed, ..Writer::new(found.disk, found.lock, rules, recovered.start)? };
        let shared = Arc::new(Shared::new(&options, writer, is_inline, origin));
        let thread = shared.start().map_err(JournalError::io("start the thread of", &directory))?;
        let (recovery, resumed, deferred) = (recovered.recovery, recovered.resumed, options.deferred);
        let latest_event = StdAtomicU64::new(latest_event.as_nanos());
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

    /// Appends an id whose stay was extended, with its fingerprint.
    pub(crate) fn slid(&self, at: Stamp, id: Digest, digest: Digest) {
        self.shared.append_slid(at, id, digest);
    }

    /// Appends that an id has been forgotten.
    pub(crate) fn forgotten(&self, at: Stamp, id: Digest) {
        self.shared.append_forgotten(at, id, || ());
    }

    /// Forgets an id, and appends that.
    pub(crate) fn forget(&self, at: Stamp, id: Digest, forget: impl FnOnce()) {
        if self.shared.must_be_here().is_err() {
            // A child's memory is its own.
            return forget();
        }
        if obeys(Rule::ForgottenAsOne) {
            meanwhile(Place::ToBeForgotten);
            self.shared.append_forgotten(at, id, forget);
        } else {
            self.shared.append_forgotten(at, id, || ());
            meanwhile(Place::ToBeForgotten);
            forget();
        }
    }

    /// Appends that everything is forgotten, and does it.
    pub(crate) fn clear(&self, at: Timestamp, clear: impl FnOnce()) {
        let is_first = obeys(Rule::ClearedFirst);
        if is_first {
            self.shared.append_cleared(at);
        }
        clear();
        if !is_first {
            self.shared.append_cleared(at);
        }
        self.shared.end_clearing();
    }

    /// Returns the number of times that something was forgotten so far.
    #[inline(always)]
    pub(crate) fn forgotten_so_far(&self) -> u64 {
        self.shared.forgotten.so_far()
    }

    /// Appends ids that checks have accepted, and others (`true`) whose stay they have extended,
    /// unless they were forgotten since the checks began: when so much had been forgotten `before`.
    #[inline]
    pub(crate) fn checked(
        &self,
        at: Stamp,
        before: u64,
        ids: impl Iterator<Item = (Digest, bool)>,
        is_remembered: impl Fn(Digest) -> bool,
    ) {
        self.shared.append_checked(at, before, ids, is_remembered);
    }

    /// Lets a window keep an id that was found elsewhere, and records that its stay was extended if
    /// it was; as one for all who forget. Returns false if something was forgotten since so much
    /// had been `before`: then it does neither, and the id is to be looked up again.
    pub(crate) fn keeps(&self, at: Stamp, before: u64, id: Digest, is_extended: bool, keep: impl FnOnce()) -> bool {
        self.shared.append_kept(at, before, id, is_extended, keep)
    }

    /// Returns the time of the last write.
    pub(crate) fn resumed(&self) -> Resumed {
        self.resumed
    }

    /// Notes that this many blocks are in no segment and not here, unless it is known already that
    /// blocks are lost.
    pub(crate) fn misses(&mut self, blocks: u64) {
        self.recovery.blocks_lost = self.recovery.blocks_lost.max(blocks);
    }

    /// Notes that the clock went on from what was recovered, and that time is counted in this way.
    pub(crate) fn goes_on(&mut self, step: Option<ClockStep>, base: TimeBase) {
        if let Some(ClockStep { by, is_backward }) = step {
            let set =
                if is_backward { &mut self.recovery.clock_set_back } else { &mut self.recovery.clock_set_forward };
            *set = Some(by);
        }
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
