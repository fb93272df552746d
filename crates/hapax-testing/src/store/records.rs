//! Records: recorded, looked up, forgotten, expired and scanned.

use super::fixture::*;
use hapax_store::*;
use std::collections::HashSet;

pub(super) async fn verify(bench: &Bench<'_>) {
    a_record_is_what_was_recorded_last(bench).await;
    looking_changes_nothing(bench).await;
    what_is_forgotten_is_fresh(bench).await;
    expiry_is_bounded_and_removes_what_is_over(bench).await;
    a_scan_finds_what_is_done(bench).await;
}

async fn a_record_is_what_was_recorded_last(bench: &Bench<'_>) {
    let case = bench.case("a record is what was recorded last").await;
    case.record("a", None).await;
    assert_eq!(is_duplicate(case.claim("a", 1).await).result, None);
    case.record("a", Some(b"result")).await;
    assert_eq!(is_duplicate(case.claim("a", 2).await).result.as_deref(), Some(b"result".as_slice()));

    let token = case.token("b", 3).await;
    case.record("b", None).await;
    is_duplicate(case.claim("b", 4).await);
    assert_eq!(case.complete("b", token).await, Held::Lost);

    let twice = [case.key("c"), case.key("c")];
    let records = twice.map(|key| Record { key, retention: RETENTION, fingerprint: None, result: None });
    assert_eq!(all(case.store.record(&records).await).len(), 2);
    is_duplicate(case.claim("c", 5).await);
}

async fn looking_changes_nothing(bench: &Bench<'_>) {
    let case = bench.case("looking changes nothing").await;
    assert_eq!(case.look_up("a").await, Known::Unknown);
    let token = case.token("a", 1).await;
    assert!(matches!(case.look_up("a").await, Known::InProgress { .. }));
    assert_eq!(case.complete("a", token).await, Held::Done);
    let keys = [case.key("b"), case.key("a"), case.key("b")];
    let known = all(case.store.look_up(&keys).await);
    assert!(matches!(known[..], [Known::Unknown, Known::Completed(_), Known::Unknown]), "{known:?}");
    assert_eq!(case.mark("b", 2).await, Marked::Fresh);
}

async fn what_is_forgotten_is_fresh(bench: &Bench<'_>) {
    let case = bench.case("what is forgotten is fresh").await;
    assert!(!case.forget("a").await);
    assert_eq!(case.mark("a", 1).await, Marked::Fresh);
    assert!(case.forget("a").await);
    assert!(!case.forget("a").await);
    assert_eq!(case.mark("a", 2).await, Marked::Fresh);

    let token = case.token("b", 3).await;
    assert!(case.forget("b").await);
    assert_eq!(case.complete("b", token).await, Held::Lost);
    case.token("b", 4).await;
}

async fn expiry_is_bounded_and_removes_what_is_over(bench: &Bench<'_>) {
    let case = bench.case("expiry is bounded, and removes what is over").await;
    let marks: Vec<Mark> = (0..100).map(|i| case.mark_of(format!("old {i}"), i)).collect();
    all(case.store.mark(&marks).await);
    bench.fixture.advance(RETENTION + SLACK).await;
    let young: Vec<Mark> = (0..100).map(|i| case.mark_of(format!("young {i}"), 100 + i)).collect();
    all(case.store.mark(&young).await);
    // Including records that other cases have left.
    let (mut calls, mut removed, limit) = (0, 0, 64);
    loop {
        let expired = case.store.expire(limit).await.expect("expiry");
        assert!(!bench.fixture.expires_by_record() || expired.records <= limit as u64, "{expired:?} of {limit}");
        removed += expired.records;
        if !expired.more {
            break;
        }
        calls += 1;
        assert!(calls < 10_000, "expiry comes to no end");
    }
    assert!(!bench.fixture.expires_by_record() || removed >= 100, "of 100 that were over, {removed} were removed");
    for i in 0..100 {
        assert_eq!(case.look_up(&format!("old {i}")).await, Known::Unknown);
        assert!(matches!(case.look_up(&format!("young {i}")).await, Known::Completed(_)));
    }
    assert!(!case.store.expire(64).await.expect("expiry").more);
}

async fn a_scan_finds_what_is_done(bench: &Bench<'_>) {
    let case = bench.case("a scan finds what is done").await;
    case.mark("over", 1).await;
    bench.fixture.advance(RETENTION + SLACK).await;
    let marks: Vec<Mark> = (0..500).map(|i| case.mark_of(format!("done {i}"), 10 + i)).collect();
    all(case.store.mark(&marks).await);
    let token = case.token("completed", 2).await;
    case.complete("completed", token).await;
    case.token("in progress", 3).await;
    case.record("recorded", None).await;
    case.mark("forgotten", 4).await;
    case.forget("forgotten").await;

    let (mut found, mut cursor, mut pages) = (HashSet::new(), None, 0);
    loop {
        let page = case.store.scan(cursor.as_ref(), 50).await.expect("a page");
        let ours = page.found.into_iter().filter(|found| found.key.scope == case.scope);
        found.extend(ours.map(|found| {
            about(found.expires_in, RETENTION);
            found.key
        }));
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        assert!(pages < 10_000, "the scan comes to no end");
    }
    assert!(pages > 1, "500 records are no page of 50");
    let expected = marks.into_iter().map(|mark| mark.key).chain([case.key("completed"), case.key("recorded")]);
    assert_eq!(found, expected.collect());
}
