//! The requests about ids, whoever holds them.

use super::operation::Operation;
use crate::dyn_store::{Answering, Erased};
use crate::tiered::lost_answers::LostMarks;
use crate::tiered::observe::RequestKind;
use crate::*;
use std::time::Duration;

pub(crate) struct Marks;
pub(crate) struct Unmarks;
pub(crate) struct LookUps;
pub(crate) struct Records;
pub(crate) struct Forgets;

impl Operation for Marks {
    type Request = Mark;
    type Answer = Marked;
    const KIND: RequestKind = RequestKind::Mark;
    const GRANTS: bool = true;

    fn key(mark: &Mark) -> &RecordKey {
        &mark.key
    }

    type Sameness = ();
    fn sameness(_: &Mark) {}

    fn call<'a>(store: &'a dyn Erased, marks: &'a [Mark]) -> Answering<'a, Answers<Marked>> {
        store.mark(marks)
    }

    fn for_follower(marked: Marked, mark: &Mark) -> Marked {
        match marked {
            Marked::Fresh => Marked::Duplicate { expires_in: mark.retention, attempt: Some(mark.attempt) },
            other => other,
        }
    }

    fn completed(mark: &Mark, marked: &Marked, took: Duration) -> Option<Duration> {
        match marked {
            Marked::Fresh => Some(mark.retention),
            Marked::Duplicate { expires_in, .. } => Some(expires_in.saturating_sub(took)),
            Marked::InProgress { .. } => None,
        }
    }

    fn is_granted(marked: &Marked) -> bool {
        *marked == Marked::Fresh
    }

    /// Takes the marks back: no caller was told that the id is fresh, so it is not handled, and its
    /// next delivery must be.
    async fn undo(store: &dyn Erased, granted: &[(Mark, Marked)]) -> Vec<bool> {
        // If this fails, it is tried again in the background; until then the id is in doubt.
        unmark(store, granted.iter().map(|(mark, _)| mark)).await
    }

    fn in_progress(marked: &Marked) -> Option<Duration> {
        match marked {
            Marked::InProgress { lease_left } => Some(*lease_left),
            _ => None,
        }
    }

    fn judged(lost: &LostMarks, mark: &Mark, marked: Marked) -> Marked {
        lost.doubted(mark, marked)
    }

    fn met(lost: &LostMarks, marked: &Marked) -> Option<u64> {
        lost.met(marked)
    }

    fn goes_by(lost: &LostMarks, number: u64) -> bool {
        lost.lock().reclaim(number)
    }

    fn lost(lost: &LostMarks, mark: &Mark, undone: bool) {
        lost.insert(mark, undone);
    }

    fn attempt(mark: &mut Mark) -> Option<&mut u64> {
        Some(&mut mark.attempt)
    }
}

/// Takes back marks that are known to be there. Returns true for each that is gone.
async fn unmark(store: &dyn Erased, marks: impl Iterator<Item = &Mark>) -> Vec<bool> {
    let asked: Vec<Unmark> = marks.map(|mark| Unmark { key: mark.key.clone(), attempt: mark.attempt }).collect();
    let Ok(answers) = store.unmark(&asked).await else { return Vec::new() };
    let is_unknown = |answer: &Result<Unmarked, StoreError>| matches!(answer, Ok(Unmarked::Unknown));
    let unknown = asked.iter().zip(&answers).filter(|(_, answer)| is_unknown(answer));
    let keys: Vec<RecordKey> = unknown.map(|(unmark, _)| unmark.key.clone()).collect();
    // The store cannot tell whose marks these are, but they were this engine's a moment ago.
    let mut forgotten =
        if keys.is_empty() { Vec::new() } else { store.forget(&keys).await.unwrap_or_default() }.into_iter();
    let is_gone = |answer| match answer {
        Ok(Unmarked::Done | Unmarked::NotThere) => true,
        Ok(Unmarked::Unknown) => forgotten.next().is_some_and(|forgotten| forgotten.is_ok()),
        Err(_) => false,
    };
    answers.into_iter().map(is_gone).collect()
}

impl Operation for Unmarks {
    type Request = Unmark;
    type Answer = Unmarked;
    const KIND: RequestKind = RequestKind::Unmark;

    fn key(mark: &Unmark) -> &RecordKey {
        &mark.key
    }

    type Sameness = ();
    fn sameness(_: &Unmark) {}

    fn call<'a>(store: &'a dyn Erased, marks: &'a [Unmark]) -> Answering<'a, Answers<Unmarked>> {
        store.unmark(marks)
    }
}

impl Operation for LookUps {
    type Request = RecordKey;
    type Answer = Known;
    const KIND: RequestKind = RequestKind::LookUp;

    fn key(key: &RecordKey) -> &RecordKey {
        key
    }

    type Sameness = ();
    fn sameness(_: &RecordKey) {}

    fn call<'a>(store: &'a dyn Erased, keys: &'a [RecordKey]) -> Answering<'a, Answers<Known>> {
        store.look_up(keys)
    }

    fn completed(key: &RecordKey, known: &Known, took: Duration) -> Option<Duration> {
        match known {
            // Notes are no ids, and would only take the place of some.
            Known::Completed(completed) if !key.scope.is_reserved() => Some(completed.expires_in.saturating_sub(took)),
            _ => None,
        }
    }
}

impl Operation for Records {
    type Request = Record;
    type Answer = ();
    const KIND: RequestKind = RequestKind::Record;

    fn bytes(record: &Record) -> usize {
        record.result.as_ref().map_or(0, Vec::len)
    }

    fn key(record: &Record) -> &RecordKey {
        &record.key
    }

    type Sameness = ();
    fn sameness(_: &Record) {}

    fn call<'a>(store: &'a dyn Erased, records: &'a [Record]) -> Answering<'a, Answers<()>> {
        store.record(records)
    }

    /// Returns nothing: the caller that records teaches memory, since a claim that is held there
    /// must find the id new.
    fn completed(_: &Record, (): &(), _: Duration) -> Option<Duration> {
        None
    }
}

impl Operation for Forgets {
    type Request = RecordKey;
    type Answer = bool;
    const KIND: RequestKind = RequestKind::Forget;

    fn key(key: &RecordKey) -> &RecordKey {
        key
    }

    type Sameness = ();
    fn sameness(_: &RecordKey) {}

    fn call<'a>(store: &'a dyn Erased, keys: &'a [RecordKey]) -> Answering<'a, Answers<bool>> {
        store.forget(keys)
    }
}
