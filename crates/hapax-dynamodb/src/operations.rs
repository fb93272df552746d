//! Each request as a first write, made without a look at the record, and its decision where that
//! write's condition does not hold: pure.

use crate::item::{self, CLAIMED, COMPLETED, FAILED};
use crate::tries::Repeats;
use crate::update::{Condition, Field, Token, Update, Written};
use hapax::Timestamp;
use hapax_store::backend::record::{self, Change, Moment, StoredRecord};
use hapax_store::*;

/// A kind of request `R`, answered by `A`.
pub(crate) struct Operation<R, A> {
    /// Its name, for errors.
    pub(crate) name: &'static str,
    pub(crate) key: fn(&R) -> &RecordKey,
    /// The first write, and the answer if its condition holds.
    pub(crate) first: fn(&R, Timestamp) -> (Update, A),
    /// The decision: the answer, and the change of the record.
    pub(crate) decide: fn(Option<&StoredRecord>, &R, Moment) -> (A, Change),
    pub(crate) repeats: Repeats,
}

pub(crate) const MARK: Operation<Mark, Marked> = Operation {
    name: "mark",
    key: |mark| &mark.key,
    first: |mark, now| {
        let written = Written {
            state: COMPLETED,
            until: now + mark.retention,
            attempt: Field::Is(mark.attempt),
            ..forgotten(now)
        };
        (written.only_if(Condition::Over { now, token: u64::MAX }), Marked::Fresh)
    },
    decide: record::mark,
    // The attempt tells that the earlier try was this one.
    repeats: Repeats::Always,
};

pub(crate) const UNMARK: Operation<Unmark, Unmarked> = Operation {
    name: "unmark",
    key: |mark| &mark.key,
    first: |mark, now| (over(now).only_if(Condition::Marked { now, attempt: mark.attempt }), Unmarked::Done),
    decide: record::unmark,
    repeats: Repeats::IfNotDone,
};

pub(crate) const CLAIM: Operation<ClaimRequest, Claimed> = Operation {
    name: "claim",
    key: |claim| &claim.key,
    first: |claim, now| {
        let token = record::next_token(None, Moment::of_server(now));
        let written = Written {
            state: CLAIMED,
            until: now + claim.lease,
            token: Token::Is(token),
            attempt: Field::Is(claim.attempt),
            fingerprint: claim.fingerprint.into(),
            held_by: claim.held_by.clone().into(),
            doubt: Some(claim.doubt).filter(|doubt| !doubt.is_zero()).map(item::seconds).into(),
            ..forgotten(now)
        };
        (written.only_if(Condition::Clear { now, token }), Claimed::Claimed { token, before: None })
    },
    decide: record::claim,
    repeats: Repeats::Always,
};

pub(crate) const COMPLETE: Operation<Completion, Held> = Operation {
    name: "complete",
    key: |completion| &completion.hold.key,
    first: |completion, now| {
        let written = Written {
            state: COMPLETED,
            until: now + completion.retention,
            fingerprint: Field::Stays,
            result: completion.result.as_deref().into(),
            ..forgotten(now)
        };
        (written.only_if(Condition::Held { now, token: completion.hold.token }), Held::Done)
    },
    decide: record::complete,
    // The token tells that the claim was completed by the earlier try.
    repeats: Repeats::Always,
};

pub(crate) const RELEASE: Operation<Hold, Held> = Operation {
    name: "release",
    key: |hold| &hold.key,
    first: |hold, now| (over(now).only_if(Condition::Held { now, token: hold.token }), Held::Done),
    decide: record::release,
    repeats: Repeats::IfNotDone,
};

pub(crate) const FAIL: Operation<ClaimFailure, Held> = Operation {
    name: "fail",
    key: |failure| &failure.hold.key,
    first: |failure, now| {
        let until = now + failure.retry_after;
        let written = Written { until, fingerprint: Field::Stays, ..over(now) };
        (written.only_if(Condition::Held { now, token: failure.hold.token }), Held::Done)
    },
    decide: record::fail,
    repeats: Repeats::IfNotDone,
};

pub(crate) const RENEW: Operation<Renewal, Held> = Operation {
    name: "renew",
    key: |renewal| &renewal.hold.key,
    first: |renewal, now| {
        let written = Written {
            state: CLAIMED,
            until: now + renewal.lease,
            attempt: Field::Stays,
            fingerprint: Field::Stays,
            held_by: Field::Stays,
            ..over(now)
        };
        (written.only_if(Condition::Renewable { now, token: renewal.hold.token }), Held::Done)
    },
    decide: record::renew,
    repeats: Repeats::Always,
};

pub(crate) const RECORD: Operation<Record, ()> = Operation {
    name: "record",
    key: |record| &record.key,
    // (Where there is a claim, or was one just now, a try that comes late must not undo what came
    // after it.)
    first: |record, now| {
        let written = Written {
            state: COMPLETED,
            until: now + record.retention,
            token: Token::GoneBy,
            fingerprint: record.fingerprint.into(),
            result: record.result.as_deref().into(),
            ..forgotten(now)
        };
        (written.only_if(Condition::NotInHand { now }), ())
    },
    decide: |stored, record, at| ((), Change::Put(StoredRecord::recorded(stored, record, at))),
    repeats: Repeats::Always,
};

pub(crate) const FORGET: Operation<RecordKey, bool> = Operation {
    name: "forget",
    key: |key| key,
    first: |_, now| (forgotten(now).only_if(Condition::Counts { now }), true),
    decide: |stored, _, at| record::forget(stored, at),
    repeats: Repeats::IfNotDone,
};

/// Returns the remainder of a record that ends now: its token, and the claim before it that is in
/// doubt.
fn over(now: Timestamp) -> Written<'static> {
    Written { doubt: Field::Stays, before: Field::Stays, ..forgotten(now) }
}

/// Returns the remainder of a record that is forgotten: its token.
fn forgotten(now: Timestamp) -> Written<'static> {
    Written {
        state: FAILED,
        until: now,
        token: Token::Stays,
        attempt: Field::Gone,
        fingerprint: Field::Gone,
        result: Field::Gone,
        held_by: Field::Gone,
        doubt: Field::Gone,
        before: Field::Gone,
    }
}
