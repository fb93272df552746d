//! The long memory as the engine asks it.

use super::forgotten::State;
use super::options::LongMemory;
use super::sealing::Sealing;
use super::stats::LongMemoryStats;
use super::worker::Worker;
use crate::digest::{Digest, WantedKey};
use crate::journal::{Disk, Shared};
use crate::process::Origin;
use crate::segments::{Answer, SegmentOptions, Segments};
use crate::sync::{Ordering, StdAtomicU64};
use crate::{SegmentError, Timestamp};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The knowledge of an id that the window does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// It was not accepted within the retention.
    Unknown,
    Known,
    /// It may have been.
    InDoubt,
    /// It was forgotten while it was asked for: what the window has of it may be gone.
    Unsettled,
}

/// The states of ids before the window is asked for them.
pub(crate) struct Before(Vec<State>);

/// The segments behind a window, and their journal.
pub(crate) struct LongTier {
    sealing: Arc<Sealing>,
    worker: Option<Worker>,
    origin: Origin,
    in_doubt: StdAtomicU64,
}

impl LongTier {
    /// Opens segments, before the journal is read.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: &LongMemory,
        key: WantedKey,
    ) -> Result<Arc<Segments>, SegmentError> {
        let LongMemory { retention, read_threads, sort_memory_bytes } = *options;
        let options = SegmentOptions { key, read_threads, ..SegmentOptions::new(retention) };
        Segments::open_on(disk, directory, SegmentOptions { sort_bytes_max: sort_memory_bytes, ..options })
    }

    /// Goes on from what the segments and the journal have: everything that is in the journal alone
    /// is sealed first; it was accepted before `now`. If nobody `is_told` a time yet, the first one
    /// that is may be earlier. Without a thread, callers do all of it.
    pub(crate) fn go_on(
        segments: Arc<Segments>,
        journal: Arc<Shared>,
        (window, now, is_told): (Duration, Timestamp, bool),
        has_thread: bool,
    ) -> Result<Self, SegmentError> {
        let directory = journal.directory().to_owned();
        let origin = Origin::here().map_err(SegmentError::io("watch for forks of", &directory))?;
        let (next, sealed) = (journal.next_block(), segments.sealed());
        if next < sealed {
            let (what, got, expected) =
                ("the next block", next.to_string(), format!("at least {sealed}, as segments say"));
            return Err(SegmentError::NotOurs { path: directory, what, got, expected });
        }
        let sealing = Arc::new(Sealing::new(segments, journal, window, has_thread));
        sealing.seal(now)?;
        if !is_told {
            sealing.be_untold();
        }
        let start = || Worker::start(Arc::clone(&sealing)).map_err(SegmentError::io("start the thread of", &directory));
        let worker = has_thread.then(start).transpose()?;
        Ok(LongTier { sealing, worker, origin, in_doubt: StdAtomicU64::new(0) })
    }

    /// Returns what there is to know of ids before the window is asked for them.
    #[inline]
    pub(crate) fn before(&self, ids: &[Digest]) -> Before {
        Before(if self.origin.is_here() { self.sealing.forgotten.of(ids) } else { Vec::new() })
    }

    /// Looks ids up that the window does not have, at this time: those in these places. The window
    /// goes by the `latest` time, which is later for an event that comes late.
    pub(crate) fn look(
        &self,
        ids: &[Digest],
        places: &[usize],
        Before(before): &Before,
        now: Timestamp,
        latest: Timestamp,
        each: &mut dyn FnMut(usize, Beyond),
    ) {
        if places.is_empty() {
            return;
        }
        if !self.origin.is_here() {
            // Its locks may be held by threads that this process does not have.
            return places.iter().for_each(|&i| each(i, self.doubt()));
        }
        let is_behind = self.keep_up(latest.max(now));
        let asked: Vec<_> = places.iter().map(|&i| ids[i]).collect();
        // Before the segments are asked: a state is given up when they know.
        let after = self.sealing.forgotten.of(&asked);
        let mut answers = Vec::with_capacity(asked.len());
        match self.sealing.is_void() {
            true => answers.resize(asked.len(), Answer::Unknown),
            // An error is that of the answers in doubt.
            false => drop(self.sealing.segments.look(&asked, now, &mut answers)),
        }
        for (k, (&i, answer)) in places.iter().zip(answers).enumerate() {
            let state = |states: &[State], i| states.get(i).copied().unwrap_or(State::Remembered);
            each(
                i,
                match (state(before, i), state(&after, k), answer) {
                    // (It may have been accepted since.)
                    (State::Gone, State::Gone, _) if is_behind => self.doubt(),
                    (State::Gone, State::Gone, _) => Beyond::Unknown,
                    (_, State::Leaving | State::Gone, _) => Beyond::Unsettled,
                    (.., Answer::Known(_)) => Beyond::Known,
                    (.., Answer::Unknown) if !is_behind => Beyond::Unknown,
                    (.., Answer::Unknown | Answer::InDoubt) => self.doubt(),
                },
            );
        }
    }

    fn doubt(&self) -> Beyond {
        // Relaxed: a count.
        self.in_doubt.fetch_add(1, Ordering::Relaxed);
        Beyond::InDoubt
    }

    /// Sees to it that what the window is about to forget is in segments. Returns true if it may
    /// not be.
    #[inline]
    fn keep_up(&self, now: Timestamp) -> bool {
        self.sealing.note_told(now);
        self.sealing.is_due(now) && self.catch_up(now)
    }

    #[cold]
    fn catch_up(&self, now: Timestamp) -> bool {
        match &self.worker {
            Some(worker) if !self.sealing.is_late(now) => worker.call(now),
            // The error is in the statistics, and the answers are in doubt when it matters.
            Some(_) => drop(self.sealing.seal(now)),
            None => drop(self.sealing.seal(now).and_then(|()| self.sealing.tidy(now, || true))),
        }
        self.sealing.is_behind(now)
    }

    /// Forgets an id.
    pub(crate) fn forget(&self, id: Digest, forget: impl FnOnce()) {
        if !self.origin.is_here() {
            return forget();
        }
        self.sealing.forgotten.begin(id);
        forget();
        self.sealing.forgotten.end(id);
    }

    /// Forgets all ids.
    pub(crate) fn clear(&self) {
        if self.origin.is_here() {
            // If it fails, the record in the journal clears them when that is sealed.
            let _ = self.sealing.clear();
        }
    }

    pub(crate) fn stats(&self, now: Timestamp) -> LongMemoryStats {
        if !self.origin.is_here() {
            return LongMemoryStats::default();
        }
        LongMemoryStats {
            segments: self.sealing.segments.stats(),
            lag: self.sealing.lag(now),
            forgotten: self.sealing.forgotten.len(),
            in_doubt: self.in_doubt.load(Ordering::Relaxed),
            failed: self.sealing.failed(),
        }
    }
}

impl Drop for LongTier {
    fn drop(&mut self) {
        let is_here = self.origin.is_here();
        if let Some(worker) = &mut self.worker {
            if is_here { worker.end() } else { worker.leave() }
        }
    }
}
