//! The effect of each request on a record, for [`batches`](super::batches).

use super::rows::{CLAIMED, COMPLETED, Fresh};
use hapax_store::backend::codec::encode_trail;
use hapax_store::backend::record::{self, Change, Moment, StoredRecord, Trail};
use hapax_store::*;

/// A kind of request `R`, answered by `A`.
pub(super) struct Operation<R, A> {
    /// Its name, for errors.
    pub(super) name: &'static str,
    pub(super) key: fn(&R) -> &RecordKey,
    /// The decision: the answer, and the change of the record.
    pub(super) decide: fn(Option<&StoredRecord>, &R, Moment) -> (A, Change),
    /// The insertion of an id without a record, if the request inserts one.
    pub(super) creation: Option<Creation<R, A>>,
    /// True if an existing record usually remains unchanged: then it is looked at before it is
    /// locked.
    pub(super) looks: bool,
    /// True if the operation ever changes records.
    pub(super) changes: bool,
    /// True if answers have results.
    pub(super) answers_results: bool,
    /// The result that comes with a request, for its size.
    pub(super) result: fn(&R) -> Option<&Vec<u8>>,
}

/// The insertion of an id without a record.
pub(super) struct Creation<R, A> {
    pub(super) state: i16,
    pub(super) has_token: bool,
    pub(super) fresh: fn(&R) -> Fresh<'_>,
    /// The answer for a record that has been inserted with a token.
    pub(super) answer: fn(u64) -> A,
}

pub(super) const MARK: Operation<Mark, Marked> = Operation {
    creation: Some(Creation {
        state: COMPLETED,
        has_token: false,
        fresh: |mark| Fresh { attempt: Some(mark.attempt), fingerprint: None, result: None, lasts: mark.retention },
        answer: |_| Marked::Fresh,
    }),
    looks: true,
    ..changing("mark", |mark| &mark.key, record::mark)
};

pub(super) const UNMARK: Operation<Unmark, Unmarked> =
    Operation { looks: true, ..changing("unmark", |mark| &mark.key, record::unmark) };

pub(super) const CLAIM: Operation<ClaimRequest, Claimed> = Operation {
    creation: Some(Creation {
        state: CLAIMED,
        has_token: true,
        fresh: |claim| Fresh {
            attempt: Some(claim.attempt),
            fingerprint: claim.fingerprint,
            result: Trail::of(claim.doubt, claim.held_by.clone(), None).map(|trail| encode_trail(&trail).into()),
            lasts: claim.lease,
        },
        answer: |token| Claimed::Claimed { token, before: None },
    }),
    looks: true,
    answers_results: true,
    ..changing("claim", |claim| &claim.key, record::claim)
};

pub(super) const RECORD: Operation<Record, ()> = Operation {
    creation: Some(Creation {
        state: COMPLETED,
        has_token: false,
        fresh: |record| Fresh {
            attempt: None,
            fingerprint: record.fingerprint,
            result: record.result.as_deref().map(Into::into),
            lasts: record.retention,
        },
        answer: |_| (),
    }),
    result: |record| record.result.as_ref(),
    ..changing(
        "record",
        |record| &record.key,
        |kept, record, at| ((), Change::Put(StoredRecord::recorded(kept, record, at))),
    )
};

pub(super) const COMPLETE: Operation<Completion, Held> = Operation {
    result: |completion| completion.result.as_ref(),
    ..changing("complete", |completion| &completion.hold.key, record::complete)
};

pub(super) const RELEASE: Operation<Hold, Held> = changing("release", |hold| &hold.key, record::release);

pub(super) const FAIL: Operation<ClaimFailure, Held> = changing("fail", |failure| &failure.hold.key, record::fail);

pub(super) const RENEW: Operation<Renewal, Held> = changing("renew", |renewal| &renewal.hold.key, record::renew);

pub(super) const FORGET: Operation<RecordKey, bool> =
    changing("forget", |key| key, |kept, _, at| record::forget(kept, at));

pub(super) const LOOK_UP: Operation<RecordKey, Known> =
    reading("look up", |kept, _, at| (record::look_up(kept, at), Change::None));

pub(super) const INSPECT: Operation<RecordKey, Option<Inspected>> =
    reading("inspect", |kept, _, at| (record::inspect(kept, at), Change::None));

/// Returns an operation that changes a record that is there, and inserts none.
const fn changing<R, A>(
    name: &'static str,
    key: fn(&R) -> &RecordKey,
    decide: fn(Option<&StoredRecord>, &R, Moment) -> (A, Change),
) -> Operation<R, A> {
    Operation {
        name,
        key,
        decide,
        creation: None,
        looks: false,
        changes: true,
        answers_results: false,
        result: |_| None,
    }
}

/// Returns an operation that reads records.
const fn reading<A>(
    name: &'static str,
    decide: fn(Option<&StoredRecord>, &RecordKey, Moment) -> (A, Change),
) -> Operation<RecordKey, A> {
    Operation { looks: true, changes: false, answers_results: true, ..changing(name, |key| key, decide) }
}
