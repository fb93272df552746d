//! A service that is throttled, slow, or gone after it has done what was asked.

use crate::client::*;
use crate::wire::Fault::{self, AnswerBroken, AnswerLost, Late, LeftOut, Passes, Refused, Silence};
use hapax_dynamodb::{DynamoDbOptions, DynamoDbStore};
use hapax_store::*;
use std::time::Duration;

/// The ways in which an answer is lost.
const LOST: [Fault; 2] = [AnswerLost, AnswerBroken];
const THROTTLED: [&str; 3] = ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"];

#[tokio::test(flavor = "multi_thread")]
async fn whoever_claimed_is_not_told_that_it_is_a_duplicate_when_the_answer_was_lost() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    for (attempt, fault) in (1..).zip(LOST) {
        let id = format!("{fault:?}");
        table.wire.forget_all();
        table.wire.fails([fault.clone()]);
        let token = token(&store, &id, attempt).await;
        // The first write, the same again, which finds its own attempt, and the whole lease.
        assert_eq!(table.wire.forget_all(), ["UpdateItem"; 3]);
        let another = one(store.claim(&[claim(&id, 100)]).await).unwrap();
        assert!(matches!(another, Claimed::InProgress { lease_left, .. } if lease_left == LEASE), "{another:?}");

        table.wire.fails([fault.clone()]);
        let renewed = store.renew(&[Renewal { hold: hold(&id, token), lease: 2 * LEASE }]).await;
        assert_eq!(one(renewed).unwrap(), Held::Done);

        table.wire.fails([fault]);
        let result = Some(b"paid".to_vec());
        let done = store.complete(&[Completion { hold: hold(&id, token), retention: HOUR, result }]).await;
        assert_eq!(one(done).unwrap(), Held::Done);
        let another = one(store.claim(&[claim(&id, 101)]).await).unwrap();
        assert!(matches!(another, Claimed::Duplicate(done) if done.result.as_deref() == Some(b"paid")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_marked_is_not_told_that_it_is_a_duplicate_when_the_answer_was_lost() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    for (attempt, fault) in (1..).zip(LOST) {
        let id = format!("{fault:?}");
        table.wire.fails([fault.clone()]);
        assert_eq!(one(store.mark(&[mark(&id, attempt)]).await).unwrap(), Marked::Fresh);
        let another = one(store.mark(&[mark(&id, 100)]).await).unwrap();
        assert!(matches!(another, Marked::Duplicate { attempt: Some(by), .. } if by == attempt), "{another:?}");
        table.wire.fails([fault]);
        let record = Record { key: key("recorded"), retention: HOUR, fingerprint: None, result: None };
        one(store.record(&[record]).await).unwrap();
    }
}

/// The first try of a request comes after the second one, and after what others did then.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_comes_late_undoes_nothing() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    let second = Duration::from_secs(1);
    let recorded = |id: &str| Record { key: key(id), retention: HOUR, fingerprint: None, result: None };
    table.wire.fails([Late]);
    one(store.record(&[recorded("forgotten")]).await).unwrap();
    table.wire.fails([Late]);
    one(store.record(&[recorded("claimed")]).await).unwrap();
    table.wire.fails([Late]);
    assert_eq!(one(store.mark(&[mark("unmarked", 1)]).await).unwrap(), Marked::Fresh);
    table.wire.fails([Late]);
    let released = token(&store, "released", 2).await;
    let renewed = token(&store, "renewed", 3).await;
    table.wire.fails([Late]);
    let renewal = |lease| Renewal { hold: hold("renewed", renewed), lease };
    assert_eq!(one(store.renew(&[renewal(LEASE)]).await).unwrap(), Held::Done);

    table.clock.advance(second);
    for id in ["forgotten", "claimed"] {
        assert!(one(store.forget(&[key(id)]).await).unwrap());
    }
    assert_eq!(one(store.unmark(&[Unmark { key: key("unmarked"), attempt: 1 }]).await).unwrap(), Unmarked::Done);
    assert_eq!(one(store.release(&[hold("released", released)]).await).unwrap(), Held::Done);
    let claimed = token(&store, "claimed", 4).await;
    assert_eq!(one(store.renew(&[renewal(LEASE)]).await).unwrap(), Held::Done);

    assert_eq!(table.wire.late_ones_arrive().await, [400; 5], "each is refused");
    for id in ["forgotten", "unmarked", "released"] {
        assert_eq!(one(store.look_up(&[key(id)]).await).unwrap(), Known::Unknown, "{id}");
    }
    let left = one(store.look_up(&[key("renewed")]).await).unwrap();
    assert!(matches!(left, Known::InProgress { lease_left, .. } if lease_left == LEASE), "{left:?}");
    let done = Completion { hold: hold("claimed", claimed), retention: HOUR, result: None };
    assert_eq!(one(store.complete(&[done]).await).unwrap(), Held::Done);

    // A lease that is renewed for less than it has left is the shorter one: whoever asks decides.
    assert_eq!(one(store.renew(&[renewal(second)]).await).unwrap(), Held::Done);
    let left = one(store.look_up(&[key("renewed")]).await).unwrap();
    assert!(matches!(left, Known::InProgress { lease_left, .. } if lease_left == second), "{left:?}");
}

/// A second try would be told that there is nothing to end, though it was the first one's doing.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_told_apart_from_anothers_doing_is_an_error_and_not_repeated() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    for fault in LOST {
        for (attempt, how) in (1..).zip(["release", "fail", "forget", "unmark"]) {
            let id = format!("{how} {fault:?}");
            let token = match how {
                "unmark" => {
                    assert_eq!(one(store.mark(&[mark(&id, attempt)]).await).unwrap(), Marked::Fresh);
                    0
                }
                _ => token(&store, &id, attempt).await,
            };
            table.wire.forget_all();
            table.wire.fails([fault.clone()]);
            let ended = match how {
                "release" => one(store.release(&[hold(&id, token)]).await).err(),
                "fail" => one(store.fail(&[ClaimFailure { hold: hold(&id, token), retry_after: LEASE }]).await).err(),
                "forget" => one(store.forget(&[key(&id)]).await).err(),
                _ => one(store.unmark(&[Unmark { key: key(&id), attempt }]).await).err(),
            };
            let error = ended.unwrap_or_else(|| panic!("{id} was answered"));
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert_eq!(table.wire.forget_all(), ["UpdateItem"], "{id}");
            // It was carried out all the same, which the error leaves open.
            let known = one(store.look_up(&[key(&id)]).await).unwrap();
            let is_failed = matches!(known, Known::InProgress { .. });
            assert!(if how == "fail" { is_failed } else { known == Known::Unknown }, "{id}: {known:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn throttled_requests_are_tried_again_each_kind_of_them() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    for (attempt, code) in (1..).zip(THROTTLED) {
        table.wire.fails([Refused(code, 400), Refused(code, 400), Passes]);
        let token = token(&store, code, attempt).await;
        assert_eq!(table.wire.forget_all().len(), 3);
        table.wire.fails([Refused(code, 400)]);
        // Not done for certain, so that also what is not idempotent is repeated.
        assert_eq!(one(store.release(&[hold(code, token)]).await).unwrap(), Held::Done);
        table.wire.fails([Refused(code, 400)]);
        assert_eq!(one(store.look_up(&[key(code)]).await).unwrap(), Known::Unknown);
        table.wire.fails([Refused(code, 400)]);
        store.scan(None, 10).await.unwrap();
        table.wire.forget_all();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn throttling_that_does_not_end_is_unavailable_after_eight_tries() {
    let Some(table) = Table::start().await else { return };
    let store = table.with(table.options().timeout(Duration::from_secs(300)));
    table.wire.always(Refused(THROTTLED[0], 400));
    let began = std::time::Instant::now();
    let answers = store.mark(&[mark("a", 1), mark("b", 2)]).await.unwrap();
    for answer in answers {
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains(THROTTLED[0]) && text.contains("8 tries") && text.contains("table hapax"), "{text}");
    }
    assert!(began.elapsed() > Duration::from_millis(1_200), "waits that double, half of each at least");
    // The client's own retries would have multiplied them.
    assert_eq!(table.wire.forget_all().len(), 16);
    // No wait goes beyond the time of the call.
    table.wire.always(Refused(THROTTLED[0], 400));
    let hasty = table.with(table.options().timeout(Duration::from_millis(200)));
    assert_eq!(one(hasty.mark(&[mark("c", 1)]).await).unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(table.wire.forget_all().len() < 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_without_an_answer_is_given_up_and_a_call_without_one_is_a_timeout() {
    let Some(table) = Table::start().await else { return };
    // All tests share the server, which answers one request after the other: the second try has
    // time.
    let patient = table.options().timeout(Duration::from_secs(300));
    let store = table.with(patient.try_timeout(Duration::from_secs(10)));
    let token = token(&store, "a", 1).await;
    table.wire.fails([Silence]);
    let done = Completion { hold: hold("a", token), retention: HOUR, result: None };
    assert_eq!(one(store.complete(&[done]).await).unwrap(), Held::Done);

    let brief = Duration::from_millis(300);
    let store = table.with(table.options().timeout(brief).try_timeout(brief));
    table.wire.always(Silence);
    let error = one(store.claim(&[claim("b", 2)]).await).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let error = one(store.look_up(&[key("b")]).await).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(store.scan(None, 10).await.unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_a_batch_leaves_out_are_asked_for_again() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    for id in ["c", "d"] {
        one(store.mark(&[mark(id, 1)]).await).unwrap();
    }
    let keys = ["a", "b", "c", "d", "a"].map(key);
    let is_known = |known: Vec<Result<Known, StoreError>>| {
        known.into_iter().map(|known| known.unwrap() != Known::Unknown).collect::<Vec<_>>()
    };
    table.wire.forget_all();
    // The first two of them are answered, then none, then all.
    table.wire.fails([LeftOut(2), LeftOut(0), Passes]);
    assert_eq!(is_known(store.look_up(&keys).await.unwrap()), [false, false, true, true, false]);
    assert_eq!(table.wire.forget_all(), ["BatchGetItem"; 3]);

    table.wire.fails([LeftOut(2)]);
    table.wire.always(LeftOut(0));
    let known = store.look_up(&keys).await.unwrap();
    assert!(known[0].is_ok() && known[1].is_ok() && known[4].is_ok());
    assert_eq!(known[2].as_ref().unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(table.wire.forget_all().len(), 9, "one that goes on, and eight tries without any progress");
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_stay_within_the_services_limits_and_ours() {
    let Some(table) = Table::start().await else { return };
    let patience = Duration::from_secs(300);
    let store = table.with(table.options().timeout(patience).try_timeout(patience).concurrency(7));
    let marks: Vec<Mark> = (0..250).map(|i| mark(&format!("{i}"), i)).collect();
    let marked = store.mark(&marks).await.unwrap();
    assert!(marked.iter().all(|marked| matches!(marked, Ok(Marked::Fresh))));
    let most = table.wire.under_way_max();
    assert!((2..=7).contains(&most), "{most} under way");
    table.wire.forget_all();
    let keys: Vec<RecordKey> = marks.iter().map(|mark| mark.key.clone()).collect();
    let known = store.look_up(&keys).await.unwrap();
    assert!(known.iter().all(|known| matches!(known, Ok(Known::Completed(_)))));
    assert_eq!(table.wire.forget_all(), ["BatchGetItem"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_that_last_are_not_repeated_and_say_what_to_do() {
    let Some(table) = Table::start().await else { return };
    let store = table.store();
    for code in ["AccessDeniedException", "ValidationException"] {
        table.wire.fails([Refused(code, 400)]);
        let error = one(store.mark(&[mark("a", 1)]).await).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains(code), "{error}");
        assert_eq!(table.wire.forget_all().len(), 1);
    }
    let elsewhere = DynamoDbStore::new(&table.client(), DynamoDbOptions::new("nowhere")).unwrap();
    let error = one(elsewhere.mark(&[mark("a", 1)]).await).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("table nowhere: ResourceNotFoundException"), "{error}");
}
