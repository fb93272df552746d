//! The requests to a store by the holder of a claim.

use super::lane::Lane;
use super::observe::Asked;
use super::operation::*;
use crate::erased::{Answering, Erased};
use crate::*;
use std::time::Duration;

impl Operation for Completions {
    type Request = Completion;
    type Answer = Held;
    const ASKED: Asked = Asked::Complete;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.completions
    }

    fn bytes(completion: &Completion) -> usize {
        completion.result.as_ref().map_or(0, Vec::len)
    }

    fn key(completion: &Completion) -> &RecordKey {
        &completion.hold.key
    }

    type Sameness = ();
    fn sameness(_: &Completion) {}

    fn call<'a>(store: &'a dyn Erased, completions: &'a [Completion]) -> Answering<'a, Answers<Held>> {
        store.complete(completions)
    }

    fn completed(completion: &Completion, held: &Held, _: Duration) -> Option<Duration> {
        (*held == Held::Done).then_some(completion.retention)
    }
}

/// Returns `Done` for every answer: a release or failure that is repeated finds nothing to end if
/// it was done the first time.
fn ended(_: Held) -> Held {
    Held::Done
}

impl Operation for Releases {
    type Request = Hold;
    type Answer = Held;
    const ASKED: Asked = Asked::Release;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.releases
    }

    fn key(hold: &Hold) -> &RecordKey {
        &hold.key
    }

    type Sameness = ();
    fn sameness(_: &Hold) {}

    fn call<'a>(store: &'a dyn Erased, holds: &'a [Hold]) -> Answering<'a, Answers<Held>> {
        store.release(holds)
    }

    fn when_asked_again(held: Held) -> Held {
        ended(held)
    }
}

impl Operation for Failures {
    type Request = Failure;
    type Answer = Held;
    const ASKED: Asked = Asked::Fail;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.failures
    }

    fn key(failure: &Failure) -> &RecordKey {
        &failure.hold.key
    }

    type Sameness = ();
    fn sameness(_: &Failure) {}

    fn call<'a>(store: &'a dyn Erased, failures: &'a [Failure]) -> Answering<'a, Answers<Held>> {
        store.fail(failures)
    }

    fn when_asked_again(held: Held) -> Held {
        ended(held)
    }
}

impl Operation for Renewals {
    type Request = Renewal;
    type Answer = Held;
    const ASKED: Asked = Asked::Renew;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.renewals
    }

    fn key(renewal: &Renewal) -> &RecordKey {
        &renewal.hold.key
    }

    type Sameness = ();
    fn sameness(_: &Renewal) {}

    fn call<'a>(store: &'a dyn Erased, renewals: &'a [Renewal]) -> Answering<'a, Answers<Held>> {
        store.renew(renewals)
    }
}
