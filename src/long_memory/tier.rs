//! The long memory as the engine asks it.

use super::bringer::Bringer;
use super::forgotten::State;
use super::options::LongMemory;
use super::sealing::Sealing;
use super::stats::LongMemoryStats;
use super::worker::Worker;
use crate::digest::{Digest, WantedKey};
use crate::journal::{Disk, DurableFiles, Shared};
use crate::mutation::{Place, Rule, meanwhile, obeys};
use crate::process::Origin;
use crate::segments::{Answer, SegmentOptions, SegmentSource, Segments};
use crate::sync::{Ordering, StdAtomicU64};
use crate::{JournalError, SegmentError, Timestamp};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The most live segments with which an engine goes on, instead of merging them first: three times
/// as many as there are while merges keep pace.
const LIVE_AT_START_MAX: u64 = 30;

/// The knowledge of an id that the window does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// It was not accepted within the retention.
    Unknown,
    Known,
    /// It may have been.
    InDoubt,
    /// It was forgotten while it was asked for: what the window has of it may be gone.
    Unsettled,
}

/// The times of a question.
#[derive(Clone, Copy)]
pub(crate) struct QuestionTimes {
    /// The time for which it is asked.
    pub(crate) at: Timestamp,
    /// The latest time that is certain to have come: what was accepted before it may be sealed, and
    /// what is older than the retention then has expired.
    pub(crate) latest: Timestamp,
    /// The time by which the window forgets: later by a tick at most.
    pub(crate) window: Timestamp,
}

/// The states of ids before the window is asked for them.
pub(crate) struct StateBefore(Vec<State>);

/// The segments behind a window, and their journal.
pub(crate) struct LongTier {
    pub(super) sealing: Arc<Sealing>,
    worker: Option<Worker>,
    /// The thread that brings segments which were elsewhere, if some were.
    bringer: Option<Bringer>,
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
        source: Option<Arc<dyn SegmentSource>>,
    ) -> Result<Arc<Segments>, SegmentError> {
        let LongMemory { retention, read_threads, sort_memory_bytes } = *options;
        let options = SegmentOptions { key, read_threads, ..SegmentOptions::new(retention) };
        Segments::open_on(disk, directory, SegmentOptions { sort_bytes_max: sort_memory_bytes, ..options }, source)
    }

    /// Goes on from what the segments and the journal have: everything that is in the journal alone
    /// is sealed first; it was accepted before `now`, and up to `lateness` before the journal had
    /// it. Without a thread, callers do all of it. A gap between both is refused, unless somebody
    /// was told of it when the journal was reopened, or it `keeps_damage`; and so are segments of
    /// another journal, unless damage is kept.
    pub(crate) fn go_on(
        segments: Arc<Segments>,
        journal: Arc<Shared>,
        (window, lateness, now): (Duration, Duration, Timestamp),
        (has_thread, keeps_damage): (bool, bool),
    ) -> Result<Self, SegmentError> {
        let directory = journal.directory().to_owned();
        let origin = Origin::here().map_err(SegmentError::io("watch for forks of", &directory))?;
        let (first, next, sealed) = (journal.first_block(), journal.next_block(), segments.sealed());
        let is_gap = sealed > 0 && first > sealed;
        // Blocks of the one would pass for those of the other. (A journal that has none yet is what
        // is left if it was deleted: see below.)
        let is_ours = next == 0 || segments.may_be_of(journal.identity());
        if !(is_ours || is_gap && keeps_damage) {
            let segments = segments.directory.clone();
            return Err(SegmentError::AnotherJournal { segments, journal: directory });
        }
        if next < sealed {
            let (what, got, expected) =
                ("the next block", next.to_string(), format!("at least {sealed}, as segments say"));
            return Err(SegmentError::NotOurs { path: directory, what, got, expected });
        }
        // It was written without these segments for a while, or they are an older copy: what is
        // between both is in neither. (Where nothing was sealed yet, a long memory begins.)
        if is_gap && !keeps_damage && !journal.gap().covers(sealed, first) {
            let (what, got) = ("the oldest block", first.to_string());
            let expected = format!(
                "at most {sealed}, where the segments in {} end; with Damage::Keep it goes on without what is between",
                segments.directory.display()
            );
            return Err(SegmentError::NotOurs { path: directory, what, got, expected });
        }
        segments.belong_to(journal.identity());
        let sealing = Arc::new(Sealing::new(segments, journal, (window, lateness), has_thread));
        sealing.seal(now)?;
        // Each start makes a segment of what it finds. A process that dies soon after each has no
        // time to merge, and each segment is an open file.
        if sealing.segments.stats().segments > LIVE_AT_START_MAX {
            sealing.tidy(now, || true)?;
        }
        let start = || Worker::start(Arc::clone(&sealing)).map_err(SegmentError::io("start the thread of", &directory));
        let worker = has_thread.then(start).transpose()?;
        let brings = has_thread && sealing.segments.stats().remote > 0;
        let start = || {
            let segments = Arc::clone(&sealing.segments);
            Bringer::start(segments).map_err(SegmentError::io("start a thread that brings segments to", &directory))
        };
        let bringer = brings.then(start).transpose()?;
        Ok(LongTier { sealing, worker, bringer, origin, in_doubt: StdAtomicU64::new(0) })
    }

    /// Brings a piece of what is elsewhere, where no thread does.
    #[cfg(test)]
    pub(super) fn bring(&self, bytes: usize) -> Result<bool, SegmentError> {
        self.sealing.segments.bring(bytes)
    }

    /// Returns what there is to know of ids before the window is asked for them.
    #[inline]
    pub(crate) fn before(&self, ids: &[Digest]) -> StateBefore {
        StateBefore(if self.origin.is_here() { self.sealing.forgotten.of(ids) } else { Vec::new() })
    }

    /// Looks ids up that the window does not have: those in these places.
    pub(crate) fn look(
        &self,
        ids: &[Digest],
        places: &[usize],
        StateBefore(before): &StateBefore,
        asked_at: QuestionTimes,
        each: &mut dyn FnMut(usize, Knowledge),
    ) {
        if places.is_empty() {
            return;
        }
        if !self.origin.is_here() {
            // Its locks may be held by threads that this process does not have.
            return places.iter().for_each(|&i| each(i, self.doubt()));
        }
        let is_behind = self.keep_up(asked_at);
        let asked: Vec<_> = places.iter().map(|&i| ids[i]).collect();
        // Before the segments are asked: a state is given up when they know.
        let look_again = || self.sealing.forgotten.of(&asked);
        let after = obeys(Rule::StateAgain).then(look_again);
        let mut answers = Vec::with_capacity(asked.len());
        if self.sealing.is_void() {
            answers.resize(asked.len(), Answer::Unknown);
        } else {
            // An error is that of the answers in doubt.
            drop(self.sealing.segments.look(&asked, asked_at.at, &mut answers));
        }
        let after = after.unwrap_or_else(look_again);
        let is_behind = if obeys(Rule::LagFirst) { is_behind } else { self.sealing.is_behind(asked_at.window) };
        for (k, (&i, answer)) in places.iter().zip(answers).enumerate() {
            let state = |states: &[State], i| states.get(i).copied().unwrap_or(State::Remembered);
            each(
                i,
                match (state(before, i), state(&after, k), answer) {
                    // (It may have been accepted since.)
                    (State::Gone, State::Gone, _) if is_behind => self.doubt(),
                    (State::Gone, State::Gone, _) => Knowledge::Unknown,
                    (_, State::Leaving | State::Gone, _) => Knowledge::Unsettled,
                    (.., Answer::Known(_)) => Knowledge::Known,
                    (.., Answer::Unknown) if !is_behind => Knowledge::Unknown,
                    (.., Answer::Unknown | Answer::InDoubt) => self.doubt(),
                },
            );
        }
    }

    fn doubt(&self) -> Knowledge {
        // Relaxed: a count.
        self.in_doubt.fetch_add(1, Ordering::Relaxed);
        Knowledge::InDoubt
    }

    /// Sees to it that what the window is about to forget is in segments. Returns true if it may
    /// not be.
    #[inline]
    fn keep_up(&self, asked: QuestionTimes) -> bool {
        self.sealing.note_accepted(asked.latest);
        self.sealing.is_due(asked.window) && self.catch_up(asked)
    }

    #[cold]
    fn catch_up(&self, QuestionTimes { latest: now, window, .. }: QuestionTimes) -> bool {
        match &self.worker {
            Some(worker) if !self.sealing.is_late(window) => worker.call(now, window),
            // The error is in the statistics, and the answers are in doubt when it matters.
            Some(_) => drop(self.sealing.seal_late(now, window)),
            None => drop(self.sealing.seal(now).and_then(|()| self.sealing.tidy(now, || true))),
        }
        self.sealing.is_behind(window)
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

    /// Returns the journal's files together with the segments that go before them: a state that a
    /// crash could have left.
    pub(crate) fn durable_files(&self, journal: &Shared) -> Result<DurableFiles, JournalError> {
        let with = |segments, files| DurableFiles { segments: Some(segments), ..files };
        if !obeys(Rule::SegmentsFirst) {
            let files = journal.durable_files()?;
            meanwhile(Place::Listed);
            return Ok(with(self.sealing.segments.durable().0, files));
        }
        loop {
            // First the segments: so the journal has all that they have, and its position lies
            // behind it.
            let (segments, sealed) = self.sealing.segments.durable();
            meanwhile(Place::Listed);
            // (Unless its files have expired meanwhile, since they were sealed.)
            if let Some(files) = journal.durable_files_since(sealed)? {
                return Ok(with(segments, files));
            }
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
            not_brought: self.sealing.segments.not_brought(),
        }
    }
}

impl Drop for LongTier {
    fn drop(&mut self) {
        let is_here = self.origin.is_here();
        if let Some(bringer) = &mut self.bringer {
            if is_here { bringer.end() } else { bringer.leave() }
        }
        if let Some(worker) = &mut self.worker {
            if is_here { worker.end() } else { worker.leave() }
        }
    }
}
