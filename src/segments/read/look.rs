//! Looks ids up in all segments: first in their filters, then in one page of each that may have
//! them.

use super::page_reads::{Buffer, Found, Question, Reads, answer};
use super::segment::Segment;
use crate::digest::Digest;
use crate::mutation::{Rule, obeys};
use crate::segments::encoding::filter::{Filter, Pattern};
use crate::segments::encoding::key::{Key, TOMBSTONE};
use crate::segments::plan::is_out;
use crate::{SegmentError, Timestamp};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

/// The knowledge of segments about an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was not accepted within the retention, or it was forgotten since.
    Unknown,
    /// It was accepted at about this time: less than a tick before it, which is a 2^16th of the
    /// time that its segment spans.
    Known(Timestamp),
    /// A page that may have it could not be read.
    InDoubt,
}

/// The ids whose lines are asked for at once, from all filters, before the first is looked at:
/// lines of two such chunks are under way.
const AHEAD: usize = 16;

/// A page that may have an id.
#[derive(Clone, Copy)]
struct Candidate {
    id: usize,
    segment: usize,
    page: u64,
    key: Key,
}

/// The patterns of some ids, whose lines have been asked for.
struct Chunk {
    first: usize,
    len: usize,
    patterns: [Pattern; AHEAD],
}

impl Chunk {
    fn new(first: usize, digests: &[Digest], filters: &[Option<&Filter>]) -> Self {
        let mut patterns = [Pattern::of(Key::new(0, 0)); AHEAD];
        patterns.iter_mut().zip(digests).for_each(|(pattern, digest)| *pattern = Pattern::of(Key::of(*digest)));
        let chunk = Chunk { first, len: digests.len(), patterns };
        for filter in filters.iter().flatten() {
            // (One filter after another: its address stays in a register.)
            filter.prefetch_all(&chunk.patterns[..chunk.len]);
        }
        chunk
    }

    /// Calls a function with each id that may be in a segment.
    fn look(&self, filter: Option<&Filter>, mut each: impl FnMut(usize)) {
        let patterns = &self.patterns[..self.len];
        match filter {
            Some(filter) => filter.each_that_may_be(patterns, |i| each(self.first + i)),
            None => (0..self.len).for_each(|i| each(self.first + i)),
        }
    }
}

/// The pages that may have ids, for each id those of newer segments first, and what they say.
struct Pages<'s> {
    segments: &'s [Arc<Segment>],
    candidates: Vec<Candidate>,
    found: Vec<Found>,
    /// Those that are not in memory, by their places.
    cold: Vec<(usize, Question)>,
    buffer: Option<Box<Buffer>>,
}

impl<'s> Pages<'s> {
    fn new(segments: &'s [Arc<Segment>]) -> Self {
        Pages { segments, candidates: Vec::new(), found: Vec::new(), cold: Vec::new(), buffer: None }
    }

    /// Asks filters, and at once the pages of those ids that these let pass: while the system reads
    /// what is not in memory, the filters are asked for the next ids.
    fn ask(&mut self, digests: &[Digest]) {
        let filters: Vec<_> = self.segments.iter().map(|segment| segment.filter.get()).collect();
        let mut chunks = digests.chunks(AHEAD).enumerate().map(|(n, chunk)| Chunk::new(n * AHEAD, chunk, &filters));
        let mut next = chunks.next();
        while let Some(chunk) = next {
            next = chunks.next();
            let first = self.candidates.len();
            for (segment, filter) in filters.iter().enumerate() {
                chunk.look(*filter, |id| {
                    let key = Key::of(digests[id]);
                    if let Some(page) = self.segments[segment].index.page_of(key) {
                        self.candidates.push(Candidate { id, segment, page: page as u64, key });
                    }
                });
            }
            self.candidates[first..].sort_unstable_by_key(|candidate| (candidate.id, Reverse(candidate.segment)));
            (first..self.candidates.len()).for_each(|i| self.begin(i));
        }
    }

    /// Reads a page that is in memory; of another one, asks the system to read it.
    fn begin(&mut self, i: usize) {
        let Candidate { segment, page, key, .. } = self.candidates[i];
        let segment = &self.segments[segment];
        let buffer = self.buffer.get_or_insert_with(Buffer::new);
        self.found.push(match segment.read_cached(page, &mut buffer.0) {
            Ok(true) => answer(segment, page, key, &buffer.0),
            Ok(false) => {
                self.cold.push((i, Question { segment: Arc::clone(segment), page, key }));
                Found::Nothing
            }
            Err(error) => Found::Failed(error),
        });
    }

    /// Waits for what is not in memory.
    fn wait(&mut self, reads: &Reads) {
        if self.cold.is_empty() {
            return;
        }
        let (places, questions): (Vec<_>, Vec<_>) = std::mem::take(&mut self.cold).into_iter().unzip();
        places.into_iter().zip(reads.answer(questions)).for_each(|(i, answer)| self.found[i] = answer);
    }
}

/// The counts of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::segments) struct Looked {
    pub(in crate::segments) pages: u64,
    pub(in crate::segments) known: u64,
}

/// Answers a batch, in its order.
pub(in crate::segments) fn look(
    segments: &[Arc<Segment>],
    reads: &Reads,
    digests: &[Digest],
    (now, retention): (Timestamp, Duration),
    answers: &mut Vec<Answer>,
) -> (Looked, Result<(), SegmentError>) {
    answers.clear();
    answers.resize(digests.len(), Answer::Unknown);
    let mut pages = Pages::new(segments);
    pages.ask(digests);
    pages.wait(reads);
    let Pages { candidates, found, .. } = pages;
    let mut looked = Looked { pages: candidates.len() as u64, known: 0 };
    let (mut result, mut at) = (Ok(()), 0);
    for of_id in candidates.chunk_by(|one, next| one.id == next.id) {
        let mut records = of_id.iter().zip(&found[at..]).filter(|(_, found)| !matches!(found, Found::Nothing));
        at += of_id.len();
        // The newest segment that has the id, or may have it, decides.
        let deciding = if obeys(Rule::NewestRecord) { records.next() } else { records.next_back() };
        let Some((candidate, found)) = deciding else { continue };
        answers[candidate.id] = match found {
            Found::Failed(error) => {
                result = result.and_then(|()| Err(error.clone()));
                Answer::InDoubt
            }
            Found::Nothing | Found::Tick(TOMBSTONE) => Answer::Unknown,
            Found::Tick(tick) => {
                let time = segments[candidate.segment].trailer.scale.time(*tick);
                if is_out(time, now, retention) { Answer::Unknown } else { Answer::Known(time) }
            }
        };
        looked.known += u64::from(matches!(answers[candidate.id], Answer::Known(_)));
    }
    (looked, result)
}
