//! Marks, and the bytes of names.

use super::fixture::*;
use hapax_store::*;
use std::time::Duration;

pub(super) async fn verify(bench: &Bench<'_>) {
    a_mark_is_fresh_once(bench).await;
    asked_again_a_mark_gets_the_same_answer(bench).await;
    a_duplicate_says_who_marked_it(bench).await;
    a_mark_is_taken_back_by_its_attempt(bench).await;
    batches_are_answered_in_order(bench).await;
    a_mark_sees_claims(bench).await;
    retention_ends(bench).await;
    times_that_cannot_be_are_refused(bench).await;
    ids_are_any_bytes(bench).await;
    scopes_are_namespaces(bench).await;
}

async fn a_mark_is_fresh_once(bench: &Bench<'_>) {
    let case = bench.case("a mark is fresh once").await;
    assert_eq!(case.mark("a", 1).await, Marked::Fresh);
    for attempt in 2..4 {
        match case.mark("a", attempt).await {
            Marked::Duplicate { expires_in, .. } => about(expires_in, RETENTION),
            other => panic!("a was marked, but a mark says {other:?}"),
        }
    }
    about(is_duplicate(case.claim("a", 4).await).expires_in, RETENTION);
    assert_eq!(case.mark("b", 5).await, Marked::Fresh);
}

async fn asked_again_a_mark_gets_the_same_answer(bench: &Bench<'_>) {
    let case = bench.case("asked again, a mark gets the same answer").await;
    assert_eq!(case.mark("a", 1).await, Marked::Fresh);
    assert_eq!(case.mark("a", 1).await, Marked::Fresh);
    assert!(matches!(case.mark("a", 2).await, Marked::Duplicate { .. }));
    assert!(matches!(case.mark("a", 2).await, Marked::Duplicate { .. }));
}

async fn a_duplicate_says_who_marked_it(bench: &Bench<'_>) {
    let case = bench.case("a duplicate says who marked it").await;
    let marked_by = |marked| match marked {
        Marked::Duplicate { attempt, .. } => attempt,
        other => panic!("the id is done, but a mark says {other:?}"),
    };
    assert_eq!(case.mark("a", 1).await, Marked::Fresh);
    assert_eq!(marked_by(case.mark("a", 2).await), case.attempt(1));
    assert_eq!(marked_by(case.mark("a", 3).await), case.attempt(1), "not who has met it");
    let both = case.store.mark(&[case.mark_of("b", 4), case.mark_of("b", 5)]).await;
    assert_eq!(marked_by(all(both).remove(1)), case.attempt(4));
    let token = case.token("completed", 6).await;
    assert_eq!(case.complete("completed", token).await, Held::Done);
    assert_eq!(marked_by(case.mark("completed", 7).await), None);
    case.record("recorded", None).await;
    assert_eq!(marked_by(case.mark("recorded", 8).await), None);
}

async fn a_mark_is_taken_back_by_its_attempt(bench: &Bench<'_>) {
    let case = bench.case("a mark is taken back by its attempt").await;
    assert_eq!(case.unmark("a", 1).await, Unmarked::NotThere);
    assert_eq!(case.mark("a", 1).await, Marked::Fresh);
    assert_eq!(case.unmark("a", 2).await, Unmarked::NotThere, "another attempt's");
    assert!(matches!(case.mark("a", 2).await, Marked::Duplicate { .. }));
    assert_eq!(case.unmark("a", 1).await, Unmarked::Done);
    assert_eq!(case.look_up("a").await, Known::Unknown);
    assert_eq!(case.unmark("a", 1).await, Unmarked::NotThere);
    assert_eq!(case.mark("a", 3).await, Marked::Fresh);
    assert_eq!(case.unmark("a", 1).await, Unmarked::NotThere, "an earlier attempt's");

    let token = case.token("claimed", 4).await;
    assert_eq!(case.unmark("claimed", 4).await, Unmarked::NotThere, "a claim");
    assert_eq!(case.complete("claimed", token).await, Held::Done);
    assert_eq!(case.unmark("claimed", 4).await, Unmarked::NotThere, "a completion");
    case.record("recorded", None).await;
    assert_eq!(case.unmark("recorded", 0).await, Unmarked::NotThere, "a record");
    for id in ["a", "claimed", "recorded"] {
        assert!(matches!(case.mark(id, 9).await, Marked::Duplicate { .. }), "{id}");
    }
    bench.fixture.advance(RETENTION + SLACK).await;
    assert_eq!(case.unmark("a", 3).await, Unmarked::NotThere, "what has expired");
    assert!(case.token("a", 10).await > 0);

    assert_eq!(all(case.store.mark(&[case.mark_of("b", 5), case.mark_of("c", 6)]).await), [Marked::Fresh; 2]);
    let attempts = [("b", 6), ("b", 5), ("c", 6), ("c", 6)].map(|(id, attempt)| (case.key(id), case.attempt(attempt)));
    let unmarks = attempts.map(|(key, attempt)| Unmark { key, attempt: attempt.unwrap_or_default() });
    let unmarked = all(case.store.unmark(&unmarks).await);
    assert_eq!(unmarked, [Unmarked::NotThere, Unmarked::Done, Unmarked::Done, Unmarked::NotThere]);
}

async fn batches_are_answered_in_order(bench: &Bench<'_>) {
    let case = bench.case("batches are answered in order").await;
    let ids = ["a", "a", "b", "c", "b"];
    let marks: Vec<Mark> = (1..).zip(ids).map(|(attempt, id)| case.mark_of(id, attempt)).collect();
    let fresh: Vec<bool> = all(case.store.mark(&marks).await).iter().map(|marked| *marked == Marked::Fresh).collect();
    assert_eq!(fresh, [true, false, true, true, false]);
    // Only with duplicates.
    let again: Vec<Mark> = (11..).zip(ids).map(|(attempt, id)| case.mark_of(id, attempt)).collect();
    assert!(all(case.store.mark(&again).await).iter().all(|marked| matches!(marked, Marked::Duplicate { .. })));

    assert!(all(case.store.mark(&[]).await).is_empty());
    assert!(all(case.store.unmark(&[]).await).is_empty());
    assert!(all(case.store.claim(&[]).await).is_empty());
    assert!(all(case.store.complete(&[]).await).is_empty());
    assert!(all(case.store.release(&[]).await).is_empty());
    assert!(all(case.store.fail(&[]).await).is_empty());
    assert!(all(case.store.renew(&[]).await).is_empty());
    assert!(all(case.store.look_up(&[]).await).is_empty());
    assert!(all(case.store.record(&[]).await).is_empty());
    assert!(all(case.store.forget(&[]).await).is_empty());

    // The largest possible batches, in no order, half of the ids known.
    let size = case.store.limits().batch as u64;
    let id = |i: u64| format!("id {}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let known: Vec<Mark> = (0..size).step_by(2).map(|i| case.mark_of(id(i), i)).collect();
    assert!(all(case.store.mark(&known).await).iter().all(|marked| *marked == Marked::Fresh));
    let both: Vec<Mark> = (0..size).map(|i| case.mark_of(id(i), size + i)).collect();
    for (i, marked) in all(case.store.mark(&both).await).into_iter().enumerate() {
        assert_eq!(marked == Marked::Fresh, i % 2 == 1, "{i}: {marked:?}");
    }
}

async fn a_mark_sees_claims(bench: &Bench<'_>) {
    let case = bench.case("a mark sees claims").await;
    let in_progress = |marked| match marked {
        Marked::InProgress { lease_left } => about(lease_left, LEASE),
        other => panic!("the id is claimed, but a mark says {other:?}"),
    };
    let token = case.token("completed", 1).await;
    in_progress(case.mark("completed", 2).await);
    assert_eq!(case.complete("completed", token).await, Held::Done);
    assert!(matches!(case.mark("completed", 3).await, Marked::Duplicate { .. }));

    let token = case.token("released", 4).await;
    in_progress(case.mark("released", 5).await);
    assert_eq!(case.release("released", token).await, Held::Done);
    assert_eq!(case.mark("released", 6).await, Marked::Fresh);

    case.token("expired", 7).await;
    bench.fixture.advance(LEASE + SLACK).await;
    assert_eq!(case.mark("expired", 8).await, Marked::Fresh);
}

async fn retention_ends(bench: &Bench<'_>) {
    let case = bench.case("retention ends, and is not a lease").await;
    assert_eq!(case.mark("marked", 1).await, Marked::Fresh);
    let token = case.token("claimed", 2).await;
    assert_eq!(case.complete("claimed", token).await, Held::Done);
    case.record("recorded", Some(b"result")).await;
    bench.fixture.advance(RETENTION - SLACK).await;
    assert!(matches!(case.mark("marked", 11).await, Marked::Duplicate { .. }));
    for (attempt, id) in (12..).zip(["claimed", "recorded"]) {
        assert!(is_duplicate(case.claim(id, attempt).await).expires_in <= SLACK);
    }
    bench.fixture.advance(2 * SLACK).await;
    for id in ["marked", "claimed", "recorded"] {
        assert_eq!(case.look_up(id).await, Known::Unknown, "{id}");
    }
    assert_eq!(case.mark("marked", 21).await, Marked::Fresh);
    assert!(case.token("claimed", 22).await > token);
    case.token("recorded", 23).await;
}

async fn times_that_cannot_be_are_refused(bench: &Bench<'_>) {
    let case = bench.case("times that cannot be are refused").await;
    fn refused<A: std::fmt::Debug>(answers: Answers<A>, option: &str) {
        match &answers.unwrap_or_else(|error| panic!("a batch came to nothing: {error}"))[..] {
            [Err(error), Ok(_)] => {
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
                assert!(error.to_string().contains(&format!("`{option}`")), "{error} does not name `{option}`");
            }
            answers => panic!("one `{option}` of two cannot be, but the answers are {answers:?}"),
        }
    }
    let token = case.token("held", 1).await;
    let hold = || case.hold("held", token);
    for (number, time) in (10..).step_by(10).zip([Duration::ZERO, Duration::MAX]) {
        let id = |what: &str| format!("{what} {number}");
        let mark = Mark { retention: time, ..case.mark_of(id("marked"), number) };
        refused(case.store.mark(&[mark, case.mark_of(id("other"), number + 1)]).await, "retention");
        let claim = ClaimRequest { lease: time, ..case.claim_of(id("claimed"), number + 2) };
        refused(case.store.claim(&[claim, case.claim_of(id("another"), number + 3)]).await, "lease");
        let renewals = [time, LEASE].map(|lease| Renewal { hold: hold(), lease });
        refused(case.store.renew(&renewals).await, "lease");
        let record = |id: &str, retention| Record { key: case.key(id), retention, fingerprint: None, result: None };
        let records = [record(&id("recorded"), time), record(&id("more"), RETENTION)];
        refused(case.store.record(&records).await, "retention");
        for what in ["marked", "claimed", "recorded"] {
            assert_eq!(case.look_up(&id(what)).await, Known::Unknown, "{what}");
        }
    }
    let other = case.token("other", 90).await;
    let failures = [("held", token, Duration::MAX), ("other", other, LEASE)]
        .map(|(id, token, retry_after)| ClaimFailure { hold: case.hold(id, token), retry_after });
    refused(case.store.fail(&failures).await, "retry_after");
    let other = case.token("yet another", 91).await;
    let completions = [("held", token, Duration::MAX), ("yet another", other, RETENTION)]
        .map(|(id, token, retention)| Completion { retention, ..case.completion(id, token) });
    refused(case.store.complete(&completions).await, "retention");
    assert_eq!(case.complete("held", token).await, Held::Done, "it is held as before");
}

async fn ids_are_any_bytes(bench: &Bench<'_>) {
    let case = bench.case("ids are any bytes").await;
    let long: Vec<Vec<u8>> = [46, 47, 48, 49, 200, 100_000].iter().map(|&len| vec![b'x'; len]).collect();
    let digests: Vec<Vec<u8>> =
        long.iter().map(|id| StoredId::new(id).as_bytes().to_vec()).filter(|id| id.len() == 48).collect();
    // Names that text, C, a database's collation, a fixed width, a template and a pattern take for
    // the same.
    let special: &[&[u8]] = &[
        b"",
        b"\0",
        b"\0\0",
        b"0",
        b"False",
        b"false",
        b"FALSE",
        b" ",
        b"\n",
        b"padded",
        b"padded ",
        b" padded",
        b"{a}b",
        b"{a}c",
        b"{}",
        b"a:b",
        b"'; DROP TABLE ids; --",
        b"\\x00",
        b"%s",
        b"$1",
        b"*",
        b"h?llo",
        b"[a]",
        b"\xff\xfe",
        b"\xfe\xff",
        b"\xc3\xa4",
        b"a\xcc\x88",
        b"\xc3\x84",
        b"\x01owner",
    ];
    let ids: Vec<&[u8]> = special
        .iter()
        .copied()
        .chain(long.iter().map(Vec::as_slice))
        .chain(digests.iter().map(Vec::as_slice))
        .collect();
    let marks: Vec<Mark> = (1..).zip(&ids).map(|(attempt, id)| case.mark_of(id, attempt)).collect();
    for (id, marked) in ids.iter().zip(all(case.store.mark(&marks).await)) {
        assert_eq!(marked, Marked::Fresh, "{}", id.escape_ascii());
    }
    let keys: Vec<RecordKey> = ids.iter().map(|id| case.key(id)).collect();
    for (key, known) in keys.iter().zip(all(case.store.look_up(&keys).await)) {
        assert!(matches!(known, Known::Completed(_)), "{key}: {known:?}");
    }
    assert!(all(case.store.forget(&keys).await).into_iter().all(|forgotten| forgotten));
}

async fn scopes_are_namespaces(bench: &Bench<'_>) {
    let case = bench.case("scopes are namespaces").await;
    let pairs = [
        ("ab", "c"),
        ("a", "bc"),
        ("", "abc"),
        ("abc", ""),
        ("a:", "b"),
        ("a", ":b"),
        ("a", "\0b"),
        ("ü'\"{}%", "b"),
        ("AB", "c"),
        ("ab ", "c"),
    ];
    let key = |(scope, id): (&str, &str)| {
        // The prefix is this run's.
        RecordKey::new(&Scope::new(&format!("{}{scope}", case.scope.as_str())).expect("a valid name"), id)
    };
    for (attempt, pair) in (1..).zip(pairs) {
        let mark = Mark { key: key(pair), ..case.mark_of("", attempt) };
        assert_eq!(one(case.store.mark(&[mark]).await), Marked::Fresh, "{pair:?}");
    }
    for pair in pairs {
        assert!(matches!(one(case.store.look_up(&[key(pair)]).await), Known::Completed(_)), "{pair:?}");
    }
}
