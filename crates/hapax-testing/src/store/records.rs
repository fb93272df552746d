//! Records: recorded, looked up, forgotten, expired and scanned.

use super::fixture::*;
use super::outcome::{Checked, ensure, is};
use hapax_store::*;
use std::collections::HashSet;

pub(super) async fn verify(bench: &Bench<'_>) -> Checked {
    a_record_is_what_was_recorded_last(bench).await?;
    a_record_replaces_the_whole_of_what_was_there(bench).await?;
    looking_changes_nothing(bench).await?;
    what_is_forgotten_is_fresh(bench).await?;
    what_is_put_aside_is_noted_and_not_done(bench).await?;
    expiry_is_bounded_and_removes_what_is_over(bench).await?;
    a_scan_finds_what_is_done(bench).await
}

async fn a_record_is_what_was_recorded_last(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a record is what was recorded last").await;
    let result = async |id, attempt| -> Checked<_> { Ok(case.is_duplicate(case.claim(id, attempt).await?)?.result) };
    case.record("a", None).await?;
    case.is(result("a", 1).await?, None)?;
    case.record("a", Some(b"result")).await?;
    case.is(result("a", 2).await?, Some(b"result".to_vec()))?;

    let token = case.token("b", 3).await?;
    case.record("b", None).await?;
    case.is_duplicate(case.claim("b", 4).await?)?;
    case.is(case.complete("b", token).await?, Held::Lost)?;
    case.is(case.renew("b", token).await?, Held::Lost)?;
    case.is(case.release("b", token).await?, Held::Lost)?;
    case.is_duplicate(case.claim("b", 4).await?)?;

    let twice = [case.record_of("c", Some(b"first")), case.record_of("c", Some(b"second"))];
    let recorded = case.all("records of c and c", case.store.record(&twice).await)?;
    case.is(recorded.len(), 2)?;
    case.is(result("c", 5).await?, Some(b"second".to_vec()))
}

async fn a_record_replaces_the_whole_of_what_was_there(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a record replaces the whole of what was there").await;
    let fingerprint = Some(Fingerprint::of("amount=10"));
    let whole = |id: &str| Record { fingerprint, retention: 2 * RETENTION, ..case.record_of(id, Some(b"result")) };
    case.record_as(whole("recorded")).await?;
    let token = case.is_claimed(case.claim_with("completed", 1, LEASE, fingerprint).await?)?;
    let completion = Completion { result: Some(b"result".into()), ..case.completion("completed", token) };
    case.is(case.complete_as(completion).await?, Held::Done)?;
    let token = case.is_claimed(case.claim_with("failed", 2, LEASE, fingerprint).await?)?;
    case.is(case.fail("failed", token, 2 * RETENTION).await?, Held::Done)?;
    case.mark("marked", 3).await?;

    let ids = ["recorded", "completed", "failed", "marked"];
    for (attempt, id) in (10..).zip(ids) {
        case.record(id, None).await?;
        let completed = case.is_duplicate(case.claim(id, attempt).await?)?;
        case.is((completed.result, completed.fingerprint), (None, None))?;
        bench.is_left(&case.asked(), completed.expires_in, RETENTION)?;
    }
    // It is no mark any more: nobody made it.
    case.is(case.unmark("marked", 3).await?, Unmarked::NotThere)?;
    bench.advance(bench.after(RETENTION)).await;
    for id in ids {
        case.is(case.look_up(id).await?, Known::Unknown)?;
    }
    Ok(())
}

async fn looking_changes_nothing(bench: &Bench<'_>) -> Checked {
    let case = bench.case("looking changes nothing").await;
    case.is(case.look_up("a").await?, Known::Unknown)?;
    let token = case.token("a", 1).await?;
    let known = case.look_up("a").await?;
    case.ensure(matches!(known, Known::InProgress { .. }), "InProgress", known)?;
    case.is(case.complete("a", token).await?, Held::Done)?;
    let keys = [case.key("b"), case.key("a"), case.key("b")];
    let known = case.all("look-ups of b, a, b", case.store.look_up(&keys).await)?;
    let is_right = matches!(known[..], [Known::Unknown, Known::Completed(_), Known::Unknown]);
    case.ensure(is_right, "Unknown, Completed, Unknown", known)?;
    case.is(case.mark("b", 2).await?, Marked::Fresh)
}

async fn what_is_forgotten_is_fresh(bench: &Bench<'_>) -> Checked {
    let case = bench.case("what is forgotten is fresh").await;
    case.is(case.forget("a").await?, false)?;
    case.is(case.mark("a", 1).await?, Marked::Fresh)?;
    case.is(case.forget("a").await?, true)?;
    case.is(case.forget("a").await?, false)?;
    case.is(case.mark("a", 2).await?, Marked::Fresh)?;

    let token = case.token("b", 3).await?;
    case.is(case.forget("b").await?, true)?;
    case.is(case.complete("b", token).await?, Held::Lost)?;
    case.token("b", 4).await.map(|_| ())
}

/// A consumer that puts a message aside writes a note beside its id, and gives the id free.
async fn what_is_put_aside_is_noted_and_not_done(bench: &Bench<'_>) -> Checked {
    // (A short name: of a long scope a note has a digest.)
    let case = bench.case("a note is not its id").await;
    let token = case.token("a", 1).await?;
    let note = Record { key: side_record_key(&case.key("a")), ..case.record_of("a", Some(b"put aside")) };
    case.record_as(note.clone()).await?;
    case.is(case.release("a", token).await?, Held::Done)?;
    case.is(case.look_up("a").await?, Known::Unknown)?;
    let noted = case.one("look-up of the note", case.store.look_up(std::slice::from_ref(&note.key)).await)?;
    case.is(case.is_completed(noted)?.result, note.result)?;
    // It was sent anew, and is done: another thing than the note, which is forgotten by itself.
    let token = case.token("a", 2).await?;
    case.is(case.complete("a", token).await?, Held::Done)?;
    case.is(case.one("forget of the note", case.store.forget(&[note.key]).await)?, true)?;
    case.is_duplicate(case.claim("a", 3).await?).map(drop)
}

async fn expiry_is_bounded_and_removes_what_is_over(bench: &Bench<'_>) -> Checked {
    let case = bench.case("expiry is bounded, and removes what is over").await;
    let marks: Vec<Mark> = (0..100).map(|i| case.mark_of(format!("old {i}"), i)).collect();
    case.all("marks of old ids", case.store.mark(&marks).await)?;
    bench.advance(RETENTION + bench.slack()).await;
    let young: Vec<Mark> = (0..100).map(|i| case.mark_of(format!("young {i}"), 100 + i)).collect();
    case.all("marks of young ids", case.store.mark(&young).await)?;
    let expire = async |limit| {
        case.one(format!("expire({limit})"), case.store.expire(limit).await.map(|expired| vec![Ok(expired)]))
    };
    // Including records that other cases have left.
    let (mut calls, mut removed, limit) = (0, 0, 64);
    let counts = bench.expires_by_record;
    loop {
        let expired = expire(limit).await?;
        case.ensure(!counts || expired.records <= limit as u64, &format!("at most {limit}"), expired)?;
        removed += expired.records;
        if !expired.more {
            break;
        }
        calls += 1;
        case.ensure(calls < 10_000, "an end of the clean-up", expired)?;
    }
    ensure("the number of removed records", !counts || removed >= 100, "the 100 that are over, at least", removed)?;
    for i in 0..100 {
        case.is(case.look_up(&format!("old {i}")).await?, Known::Unknown)?;
        case.is_completed(case.look_up(&format!("young {i}")).await?)?;
    }
    let expired = expire(64).await?;
    case.ensure(!expired.more, "nothing more", expired)
}

async fn a_scan_finds_what_is_done(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a scan finds what is done").await;
    case.mark("over", 1).await?;
    bench.advance(RETENTION + bench.slack()).await;
    let marks: Vec<Mark> = (0..500).map(|i| case.mark_of(format!("done {i}"), 10 + i)).collect();
    case.all("marks of 500 ids", case.store.mark(&marks).await)?;
    let token = case.token("completed", 2).await?;
    case.complete("completed", token).await?;
    case.token("in progress", 3).await?;
    case.record("recorded", None).await?;
    case.mark("forgotten", 4).await?;
    case.forget("forgotten").await?;

    let (mut found, mut cursor, mut pages) = (HashSet::new(), None, 0);
    loop {
        let page = case.store.scan(cursor.as_ref(), 50).await.map(|page| vec![Ok(page)]);
        let page = case.one(format!("page {pages} of a scan"), page)?;
        for ours in page.found.into_iter().filter(|found| found.key.scope == case.scope) {
            bench.is_left("the time left to an id that a scan has found", ours.expires_in, RETENTION)?;
            found.insert(ours.key);
        }
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        case.ensure(pages < 10_000, "an end of the scan", pages)?;
    }
    ensure("the number of pages of 500 records, by 50", pages > 1, "more than one", pages)?;
    let expected = marks.into_iter().map(|mark| mark.key).chain([case.key("completed"), case.key("recorded")]);
    let expected: HashSet<RecordKey> = expected.collect();
    let differ: Vec<_> = expected.symmetric_difference(&found).map(RecordKey::to_string).collect();
    is("what a scan finds too much or does not find", differ, vec![])
}
