//! Looks ids up in all segments: first in their filters, then in one page of each that may have
//! them.

use super::filter::Pattern;
use super::key::{Key, TOMBSTONE};
use super::plan::is_out;
use super::reads::{Buffer, Found, Question, Reads};
use super::segment::Segment;
use crate::digest::Digest;
use crate::rules::{Rule, obeys};
use crate::{SegmentError, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// What segments know of an id.
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

/// The ids whose lines are asked for at once, from all filters, before the first is looked at.
const AHEAD: usize = 8;

/// A page that may have an id.
#[derive(Clone, Copy)]
struct Candidate {
    id: usize,
    segment: usize,
    page: u64,
    key: Key,
}

/// Appends the pages that may have ids: for each id those of newer segments first.
fn candidates(segments: &[Arc<Segment>], digests: &[Digest]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let filters: Vec<_> = segments.iter().map(|segment| segment.filter.get()).collect();
    let patterns_of = |chunk: &[Digest]| {
        let none = Pattern::of(Key::new(0, 0));
        let mut patterns = [none; AHEAD];
        for (pattern, digest) in patterns.iter_mut().zip(chunk) {
            *pattern = Pattern::of(Key::of(*digest));
            filters.iter().flatten().for_each(|filter| filter.prefetch(pattern));
        }
        patterns
    };
    let mut chunks = digests.chunks(AHEAD).enumerate();
    let mut next = chunks.next().map(|(n, chunk)| (n, chunk, patterns_of(chunk)));
    while let Some((n, chunk, patterns)) = next {
        next = chunks.next().map(|(n, chunk)| (n, chunk, patterns_of(chunk)));
        for (i, (digest, pattern)) in chunk.iter().zip(&patterns).enumerate() {
            for (segment, filter) in filters.iter().enumerate().rev() {
                if filter.is_none_or(|filter| filter.may_have(pattern)) {
                    let key = Key::of(*digest);
                    if let Some(page) = segments[segment].index.page_of(key) {
                        candidates.push(Candidate { id: n * AHEAD + i, segment, page: page as u64, key });
                    }
                }
            }
        }
    }
    candidates
}

/// Reads the candidates' pages: at once what is in memory, then the others together.
fn read(segments: &[Arc<Segment>], candidates: &[Candidate], reads: &Reads) -> Vec<Found> {
    let mut buffer = Buffer::new();
    let (mut found, mut cold) = (Vec::with_capacity(candidates.len()), Vec::new());
    for (i, Candidate { segment, page, key, .. }) in candidates.iter().enumerate() {
        let segment = &segments[*segment];
        let question = || Question { segment: Arc::clone(segment), page: *page, key: *key };
        found.push(match segment.read_cached(*page, &mut buffer.0) {
            Ok(true) => question().answer(&buffer.0),
            Ok(false) => {
                cold.push((i, question()));
                Found::Nothing
            }
            Err(error) => Found::Failed(error),
        });
    }
    if !cold.is_empty() {
        let (places, questions): (Vec<_>, Vec<_>) = cold.into_iter().unzip();
        places.into_iter().zip(reads.answer(questions)).for_each(|(i, answer)| found[i] = answer);
    }
    found
}

/// The counts of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    pub(super) pages: u64,
    pub(super) known: u64,
}

/// Answers a batch, in its order.
pub(super) fn look(
    segments: &[Arc<Segment>],
    reads: &Reads,
    digests: &[Digest],
    (now, retention): (Timestamp, Duration),
    answers: &mut Vec<Answer>,
) -> (Looked, Result<(), SegmentError>) {
    answers.clear();
    answers.resize(digests.len(), Answer::Unknown);
    let candidates = candidates(segments, digests);
    if candidates.is_empty() {
        return (Looked::default(), Ok(()));
    }
    let found = read(segments, &candidates, reads);
    let mut looked = Looked { pages: candidates.len() as u64, known: 0 };
    let (mut result, mut at) = (Ok(()), 0);
    for of_id in candidates.chunk_by(|one, next| one.id == next.id) {
        let mut records = of_id.iter().zip(&found[at..]).filter(|(_, found)| !matches!(found, Found::Nothing));
        at += of_id.len();
        // The newest segment that has the id, or may have it, decides.
        let deciding = if obeys(Rule::NewestRecord) { records.next() } else { records.last() };
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
