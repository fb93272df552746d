//! Sealing: what the journal has written becomes a segment, while the window still has it.

use super::forgotten::Forgotten;
use super::span::JournalSpan;
use crate::journal::Shared;
use crate::mutation::{Rule, obeys};
use crate::segments::Segments;
use crate::sync::{DiskAtomicBool, DiskAtomicU64, DiskMutex, Ordering, unpoisoned};
use crate::{SegmentError, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time that a disk that has failed is left alone.
const REST: Duration = Duration::from_millis(100);

/// The records that a merge takes between two looks at what else there is to do: some 2 ms.
const STEP: usize = 40_000;

/// The journal's files on their way into segments.
pub(super) struct Sealing {
    pub(super) segments: Arc<Segments>,
    pub(super) journal: Arc<Shared>,
    pub(super) forgotten: Forgotten,
    /// The lag from which on the thread seals.
    due: Duration,
    /// The lag from which on callers do not leave it to the thread.
    late: Duration,
    /// The lag with which the window may have forgotten what is in no segment.
    behind: Duration,
    /// The shortest time between two tries after one has failed.
    rest: Duration,
    /// Everything that the journal had before this time is in segments.
    since: DiskAtomicU64,
    /// True while all segments are forgotten, and the disk has not taken that yet.
    is_void: DiskAtomicBool,
    progress: DiskMutex<Progress>,
    /// The last try, if it has failed. Apart, so that statistics wait for nothing.
    failed: DiskMutex<Option<(Instant, SegmentError)>>,
}

/// The part that whoever seals holds.
#[derive(Default)]
struct Progress {
    /// The number of the first block that was written after everything was cleared, if the record
    /// of that has waited for a checkpoint.
    void_below: u64,
    /// True if everything was cleared since the journal was last written.
    is_cleared: bool,
}

impl Sealing {
    /// An id was accepted up to `lateness` before the journal had it, or up to a quarter of the
    /// window, which a check may take. Without a thread, callers try again at once.
    pub(super) fn new(
        segments: Arc<Segments>,
        journal: Arc<Shared>,
        (window, lateness): (Duration, Duration),
        has_thread: bool,
    ) -> Self {
        let rest = if has_thread { REST } else { Duration::ZERO };
        let behind = window.saturating_sub(lateness.max(window / 4));
        let late = (window / 4 * 3).min(behind).max(window / 2);
        // What is sealed at a time is what the window has to hold for it: the later, the shorter a
        // window has as few segments. A quarter of it is left for the thread, and one for callers.
        let due = late - window / 4;
        let (since, progress) = (DiskAtomicU64::new(0), DiskMutex::default());
        let (forgotten, is_void) = (Forgotten::default(), DiskAtomicBool::new(false));
        let failed = DiskMutex::default();
        Sealing { segments, journal, forgotten, due, late, behind, rest, since, is_void, progress, failed }
    }

    /// Returns the age of the oldest id of the journal that is in no segment, at most.
    pub(super) fn lag(&self, now: Timestamp) -> Duration {
        // Relaxed: a time, which orders nothing. (What is sealed is seen by the lock of the list.)
        now.since(Timestamp::from_nanos(self.since.load(Ordering::Relaxed)))
    }

    /// Notes that something was accepted at a time. It may be earlier than all that came before: if
    /// an engine goes by its events, time begins with the first of them.
    #[inline(always)]
    pub(super) fn note_accepted(&self, at: Timestamp) {
        // Relaxed: as in `lag`.
        if self.since.load(Ordering::Relaxed) > at.as_nanos() {
            self.since.fetch_min(at.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns true if it is time for the thread to seal.
    #[inline(always)]
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.lag(now) >= self.due
    }

    /// Returns true if a caller must not wait for the thread any more.
    pub(super) fn is_late(&self, now: Timestamp) -> bool {
        self.lag(now) >= self.late
    }

    /// Returns true if the window may have forgotten what is in no segment.
    pub(super) fn is_behind(&self, now: Timestamp) -> bool {
        self.lag(now) >= self.behind && obeys(Rule::BehindIsInDoubt)
    }

    /// Seals all that the journal has, unless that has failed just now. Returns the error, if it
    /// failed.
    pub(super) fn seal(&self, now: Timestamp) -> Result<(), SegmentError> {
        self.seal_if(now, || true)
    }

    /// Seals for a call that found it due, by the window's time, unless it was done since: else a
    /// call that comes while one seals would make a small segment more.
    pub(super) fn seal_due(&self, now: Timestamp, window: Timestamp) -> Result<(), SegmentError> {
        self.seal_if(now, || self.is_due(window))
    }

    /// Seals for a caller who has found it late, unless somebody else has just done it.
    pub(super) fn seal_late(&self, now: Timestamp, window: Timestamp) -> Result<(), SegmentError> {
        self.seal_if(now, || self.is_late(window))
    }

    fn seal_if(&self, now: Timestamp, is_due: impl FnOnce() -> bool) -> Result<(), SegmentError> {
        let mut progress = unpoisoned(self.progress.lock());
        if !is_due() {
            return Ok(());
        }
        if let Some((at, error)) = &*unpoisoned(self.failed.lock())
            && at.elapsed() < self.rest
        {
            return Err(error.clone());
        }
        let sealed = self.seal_all(now, &mut progress);
        *unpoisoned(self.failed.lock()) = sealed.as_ref().err().map(|error| (Instant::now(), error.clone()));
        sealed
    }

    fn seal_all(&self, now: Timestamp, progress: &mut Progress) -> Result<(), SegmentError> {
        if self.is_void() {
            self.drop_segments()?;
        }
        // First, since ids are accepted meanwhile: those may be in no file yet.
        let began = self.journal.latest().max(now);
        // If it fails, what is complete is sealed all the same: over its budget of the disk, the
        // journal goes on when that can be deleted. (Not if it was cleared since, and no file says
        // so.)
        let closed = self.close_file(progress);
        if progress.is_cleared {
            return closed;
        }
        let unsealed = self.journal.unsealed();
        // (What is held for the next checkpoint is in no file.)
        let held = self.journal.earliest_held().filter(|_| obeys(Rule::HeldIsUnsealed));
        let began = held.map_or(began, |held| held.min(began));
        let began = if obeys(Rule::SealedUpTo) { began } else { self.journal.latest().max(began) };
        if !obeys(Rule::PublishedFirst) {
            self.since.fetch_max(began.as_nanos(), Ordering::Relaxed);
        }
        if let Some(last) = unsealed.files.last() {
            let mut span = JournalSpan::of(&unsealed, progress.void_below)?;
            if span.clears() {
                self.drop_segments()?;
            }
            if !obeys(Rule::SealedFirst) {
                self.journal.note_sealed(last.end);
            }
            if !obeys(Rule::ForgottenUntilSealed) {
                self.forgotten.sealed(&std::mem::take(&mut span.forgotten));
            }
            self.segments.seal(&mut span, last.end)?;
            // Only now may the files be deleted.
            self.journal.note_sealed(last.end);
            self.forgotten.sealed(&span.forgotten);
        }
        closed?;
        // (Whoever was called for an earlier time, and has waited, takes nothing back.)
        self.since.fetch_max(began.as_nanos(), Ordering::Relaxed);
        Ok(())
    }

    /// Makes durable what the journal has, in complete files.
    fn close_file(&self, progress: &mut Progress) -> Result<(), SegmentError> {
        self.journal.close_file()?;
        if std::mem::take(&mut progress.is_cleared) && self.journal.holds() {
            progress.void_below = self.journal.next_block();
        }
        Ok(())
    }

    /// Forgets all that is in segments, and what of the past is in the journal's files.
    pub(super) fn clear(&self) -> Result<(), SegmentError> {
        let mut progress = unpoisoned(self.progress.lock());
        // Release: partner of the acquire in `is_void`. From here on they answer nothing, whether
        // or not the disk takes that.
        self.is_void.store(obeys(Rule::VoidAtOnce), Ordering::Release);
        // Where the record that clears what was written is held, it must not be waited for. If this
        // fails, what is written until it succeeds does not count either: it is handled again.
        progress.is_cleared = true;
        let closed = if self.journal.holds() { self.close_file(&mut progress) } else { Ok(()) };
        self.drop_segments().and(closed)
    }

    fn drop_segments(&self) -> Result<(), SegmentError> {
        self.segments.clear(self.segments.sealed())?;
        self.is_void.store(false, Ordering::Release);
        Ok(())
    }

    /// Returns true if what segments say is not to be believed, since all was forgotten.
    pub(super) fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Acquire)
    }

    /// Merges what is to be merged, and deletes what has expired; `goes_on` is asked every 2 ms or
    /// so.
    pub(super) fn tidy(&self, now: Timestamp, mut goes_on: impl FnMut() -> bool) -> Result<(), SegmentError> {
        self.segments.expire(now)?;
        while self.segments.load_filter()? && goes_on() {}
        while goes_on()
            && let Some(mut merge) = self.segments.begin_merge(now)?
        {
            while !merge.step(STEP)? {
                if !goes_on() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the error of the last try to seal, if it failed.
    pub(super) fn failed(&self) -> Option<SegmentError> {
        unpoisoned(self.failed.lock()).as_ref().map(|(_, error)| error.clone())
    }
}
