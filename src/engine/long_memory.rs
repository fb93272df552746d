//! Ids that the window does not have: a long memory is asked, and what it knows is a duplicate.
//!
//! The window is asked first, and inserts the id; then the list of segments is taken. So an id
//! that leaves the window while it is being asked for is in a segment of that list, and one that
//! two callers ask for at once is a duplicate to one of them by the window. What segments know
//! stays in the window: an id that is asked for again may be remembered for a window longer.

use super::{At, Engine, FRESH_BY_SEGMENTS, Noting, Tried};
use crate::claims::Request;
use crate::clock::Reading;
use crate::digest::Digest;
use crate::journal::{DurableFiles, Journal};
use crate::long_memory::{Knowledge, LongTier, QuestionTimes, StateBefore};
use crate::mutation::{Place, Rule, meanwhile, obeys};
use crate::stats::Counts;
use crate::{JournalError, Outcome, Tier, Verdict};

const DUPLICATE_BY_SEGMENTS: Verdict = Verdict::exact(Outcome::Duplicate, Tier::Segments);
/// The message is handled, perhaps once more: nothing is lost by that.
const IN_DOUBT: Verdict = Verdict::guess(Outcome::Fresh);

/// A long memory that is to be asked for ids, after the window.
pub(super) struct Question<'e> {
    engine: &'e Engine,
    long: &'e LongTier,
    before: StateBefore,
    /// The count of what was forgotten before the window was asked.
    forgotten: u64,
}

impl Engine {
    /// Returns the journal, if checks of many ids are to be made in parts, for it or for a long
    /// memory (which has a journal).
    #[inline(always)]
    pub(super) fn in_parts_for(&self) -> Option<&Journal> {
        self.journal.as_deref().filter(|journal| journal.notes_checks() || self.long.is_some())
    }

    /// Prepares to ask the long memory, if there is one. To be called before the window is asked.
    #[inline(always)]
    pub(super) fn asking(&self, ids: &[Digest]) -> Option<Question<'_>> {
        let long = self.long.as_deref()?;
        let forgotten = self.forgotten_so_far();
        Some(Question { engine: self, long, before: long.before(ids), forgotten })
    }

    /// Returns the verdict on an id for which this is that of the tiers in memory.
    #[inline(always)]
    pub(super) fn beyond(&self, asking: Option<Question<'_>>, id: Digest, at: Reading, verdict: Verdict) -> Verdict {
        match asking {
            Some(asking) if verdict.is_fresh() => self.verdict_of(asking.one(id, at), asking.forgotten, id, at),
            _ => verdict,
        }
    }

    /// Asks for the ids of a part that are fresh for the tiers in memory.
    pub(super) fn beyond_of(
        &self,
        asking: Option<Question<'_>>,
        ids: &[Digest],
        at: Reading,
        verdicts: &mut [Verdict],
        counts: &mut Counts,
    ) {
        let Some(Question { long, before, forgotten, .. }) = asking else { return };
        meanwhile(Place::Inserted);
        let places: Vec<_> = (0..ids.len()).filter(|&i| verdicts[i].is_fresh()).collect();
        long.look(ids, &places, &before, self.times(at), &mut |i, beyond| {
            let verdict = self.verdict_of(beyond, forgotten, ids[i], at);
            counts.replace(verdicts[i], verdict);
            verdicts[i] = verdict;
        });
    }

    /// Returns the times of a question.
    ///
    /// An engine that goes by its events takes a call without a time for as late as the latest,
    /// which the window knows by the end of its tick only: an id would leave segments a tick too
    /// early. An event that comes late counts as the latest for the window. And before the first
    /// call that accepts anything since the engine was built, nobody knows by which time it goes: a
    /// call that only reads must let nothing expire by the clock, as events may go on from before
    /// it.
    fn times(&self, at: Reading) -> QuestionTimes {
        let asked = self.no_later_than_events(at.time);
        if self.stream_time.is_by_clock() || self.stream_time.is_by_events() {
            let latest = self.window.no_earlier(asked);
            QuestionTimes { at: asked, latest, window: latest.max(at.time) }
        } else {
            let latest = self.window.latest_start().unwrap_or_default();
            QuestionTimes { at: asked, latest, window: latest }
        }
    }

    fn forgotten_so_far(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.forgotten_so_far())
    }

    fn verdict_of(&self, beyond: Knowledge, forgotten: u64, id: Digest, at: Reading) -> Verdict {
        match beyond {
            Knowledge::Unknown if self.forgotten_so_far() == forgotten => FRESH_BY_SEGMENTS,
            Knowledge::Known => DUPLICATE_BY_SEGMENTS,
            Knowledge::InDoubt if self.forgotten_so_far() == forgotten => IN_DOUBT,
            Knowledge::Unknown | Knowledge::Unsettled | Knowledge::InDoubt => {
                // It is fresh once it was forgotten (which may be sealed by now). The window may
                // have forgotten what it was told before that.
                self.claims.settle(id);
                if obeys(Rule::InsertAgain) {
                    self.window.check_at(id, at);
                }
                if matches!(beyond, Knowledge::InDoubt) { IN_DOUBT } else { FRESH_BY_SEGMENTS }
            }
        }
    }

    /// Returns the files of the journal, and those of a long memory that belong to them.
    pub(crate) fn durable_files(&self) -> Result<DurableFiles, JournalError> {
        let journal = &self.journal.as_deref().ok_or(JournalError::NotConfigured)?.shared;
        match &self.long {
            Some(long) => long.durable_files(journal),
            None => journal.durable_files(),
        }
    }

    /// Returns true if a long memory has an id that the window does not have.
    pub(crate) fn is_known_beyond(&self, id: Digest, at: Reading) -> bool {
        self.asking(&[id]).is_some_and(|asking| matches!(asking.one(id, at), Knowledge::Known))
    }

    /// Returns true if a long memory has an id that the window does not have now, and may have had
    /// when its latest tick was `before`: then [`claim_beyond`](Self::claim_beyond) has not looked
    /// for it where it is now.
    #[inline(always)]
    pub(super) fn has_left_for_segments(&self, id: Digest, at: Reading, before: u64) -> bool {
        self.long.is_some()
            && self.window.latest_tick() != before
            && obeys(Rule::SegmentsAgain)
            && self.is_known_beyond(id, at)
    }

    /// Returns the result of an attempt to claim an id that a long memory has.
    pub(super) fn claim_beyond(&self, request: &Request, at: Reading) -> Option<Tried> {
        /// More than meet a forgetting by chance. Any id that is forgotten counts, and each try may
        /// read a page.
        const TRIES: usize = 8;
        let (id, journal) = (request.id, self.journal.as_deref()?);
        self.long.as_ref()?;
        for _ in 0..TRIES {
            let Noting { forgotten, .. } = Noting::begin(journal);
            if self.window.contains(id, at.time) || !self.is_known_beyond(id, at) {
                return None;
            }
            if let Some(begun) = self.claims.look(request, &At(self, at)) {
                return Some(begun.into());
            }
            // Like an id that was checked: in the window from now on. Unless it was forgotten since
            // it was found: then it would stay there, and be a duplicate.
            let stays = || {
                self.window.check_at(id, at);
            };
            if journal.keeps(self.stamp(at), forgotten, id, self.refresh_on_duplicate, stays) {
                break;
            }
        }
        // It was known at some moment of this call, also if it is not kept in the window.
        Some(Tried::Duplicate(DUPLICATE_BY_SEGMENTS))
    }

    /// Forgets an id, everywhere.
    pub(super) fn forget_beyond(&self, id: Digest, forget: impl FnOnce()) {
        match &self.long {
            Some(long) => long.forget(id, forget),
            None => forget(),
        }
    }

    /// Forgets everything that the window does not have.
    pub(crate) fn clear_beyond(&self) {
        if let Some(long) = &self.long {
            long.clear();
        }
    }
}

impl Question<'_> {
    fn one(&self, id: Digest, at: Reading) -> Knowledge {
        meanwhile(Place::Inserted);
        let mut answer = Knowledge::InDoubt;
        self.long.look(&[id], &[0], &self.before, self.engine.times(at), &mut |_, beyond| answer = beyond);
        answer
    }
}
