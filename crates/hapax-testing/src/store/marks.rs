//! Marks, and the bytes of names.

use super::fixture::*;
use super::outcome::{Checked, ensure, is};
use hapax_store::*;
use std::time::Duration;

pub(super) async fn verify(bench: &Bench<'_>) -> Checked {
    a_mark_is_fresh_once(bench).await?;
    asked_again_a_mark_gets_the_same_answer(bench).await?;
    a_duplicate_says_who_marked_it(bench).await?;
    a_mark_is_taken_back_by_its_attempt(bench).await?;
    batches_are_answered_in_order(bench).await?;
    a_mark_sees_claims(bench).await?;
    times_that_cannot_be_are_refused(bench).await?;
    ids_are_any_bytes(bench).await?;
    scopes_are_namespaces(bench).await
}

async fn a_mark_is_fresh_once(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a mark is fresh once").await;
    case.is(case.mark("a", 1).await?, Marked::Fresh)?;
    for attempt in 2..4 {
        let (expires_in, _) = case.is_marked(case.mark("a", attempt).await?)?;
        case.is_about(expires_in, RETENTION)?;
    }
    let completed = case.is_duplicate(case.claim("a", 4).await?)?;
    case.is_about(completed.expires_in, RETENTION)?;
    case.is(case.mark("b", 5).await?, Marked::Fresh)
}

async fn asked_again_a_mark_gets_the_same_answer(bench: &Bench<'_>) -> Checked {
    let case = bench.case("asked again, a mark gets the same answer").await;
    case.is(case.mark("a", 1).await?, Marked::Fresh)?;
    case.is(case.mark("a", 1).await?, Marked::Fresh)?;
    case.is_marked(case.mark("a", 2).await?)?;
    case.is_marked(case.mark("a", 2).await?).map(|_| ())
}

async fn a_duplicate_says_who_marked_it(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a duplicate says who marked it").await;
    let marked_by = |marked| case.is_marked(marked).map(|(_, attempt)| attempt);
    case.is(case.mark("a", 1).await?, Marked::Fresh)?;
    for attempt in 2..4 {
        // Not who has met it.
        let by = marked_by(case.mark("a", attempt).await?)?;
        case.is(by, case.attempt(1))?;
    }
    let marks = [case.mark_of("b", 4), case.mark_of("b", 5)];
    let both = case.all("two marks of b in one batch", case.store.mark(&marks).await)?;
    is("who marked b", both.last().copied().map(marked_by).transpose()?, Some(case.attempt(4)))?;
    let token = case.token("completed", 6).await?;
    case.is(case.complete("completed", token).await?, Held::Done)?;
    case.record("recorded", None).await?;
    for (attempt, id) in (7..).zip(["completed", "recorded"]) {
        let by = marked_by(case.mark(id, attempt).await?)?;
        case.is(by, None)?;
    }
    Ok(())
}

async fn a_mark_is_taken_back_by_its_attempt(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a mark is taken back by its attempt").await;
    case.is(case.unmark("a", 1).await?, Unmarked::NotThere)?;
    case.is(case.mark("a", 1).await?, Marked::Fresh)?;
    case.is(case.unmark("a", 2).await?, Unmarked::NotThere)?;
    case.is_marked(case.mark("a", 2).await?)?;
    case.is(case.unmark("a", 1).await?, Unmarked::Done)?;
    case.is(case.look_up("a").await?, Known::Unknown)?;
    case.is(case.unmark("a", 1).await?, Unmarked::NotThere)?;
    case.is(case.mark("a", 3).await?, Marked::Fresh)?;
    case.is(case.unmark("a", 1).await?, Unmarked::NotThere)?;

    let token = case.token("claimed", 4).await?;
    case.is(case.unmark("claimed", 4).await?, Unmarked::NotThere)?;
    case.is(case.complete("claimed", token).await?, Held::Done)?;
    case.is(case.unmark("claimed", 4).await?, Unmarked::NotThere)?;
    case.record("recorded", None).await?;
    case.is(case.unmark("recorded", 0).await?, Unmarked::NotThere)?;
    for id in ["a", "claimed", "recorded"] {
        case.is_marked(case.mark(id, 9).await?)?;
    }
    bench.advance(RETENTION + bench.slack()).await;
    case.is(case.unmark("a", 3).await?, Unmarked::NotThere)?;
    case.token("a", 10).await?;

    let marks = [case.mark_of("b", 5), case.mark_of("c", 6)];
    case.is(case.all("marks of b and c", case.store.mark(&marks).await)?, vec![Marked::Fresh; 2])?;
    let attempts = [("b", 6), ("b", 5), ("c", 6), ("c", 6)].map(|(id, attempt)| (case.key(id), case.attempt(attempt)));
    let unmarks = attempts.map(|(key, attempt)| Unmark { key, attempt: attempt.unwrap_or_default() });
    let unmarked =
        case.all("unmarks of b by another, of b, of c, and of c again", case.store.unmark(&unmarks).await)?;
    case.is(unmarked, vec![Unmarked::NotThere, Unmarked::Done, Unmarked::Done, Unmarked::NotThere])
}

async fn batches_are_answered_in_order(bench: &Bench<'_>) -> Checked {
    let case = bench.case("batches are answered in order").await;
    let ids = ["a", "a", "b", "c", "b"];
    let marks: Vec<Mark> = (1..).zip(ids).map(|(attempt, id)| case.mark_of(id, attempt)).collect();
    let marked = case.all("marks of a, a, b, c, b", case.store.mark(&marks).await)?;
    let fresh: Vec<bool> = marked.iter().map(|marked| *marked == Marked::Fresh).collect();
    is("which of a, a, b, c, b are fresh", fresh, vec![true, false, true, true, false])?;
    // Only with duplicates.
    let again: Vec<Mark> = (11..).zip(ids).map(|(attempt, id)| case.mark_of(id, attempt)).collect();
    for marked in case.all("marks of what is marked", case.store.mark(&again).await)? {
        case.is_marked(marked)?;
    }
    empty_batches_have_no_answers(&case).await?;

    // The largest possible batches, in no order, half of the ids known.
    let size = case.store.limits().batch as u64;
    let id = |i: u64| format!("id {}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let known: Vec<Mark> = (0..size).step_by(2).map(|i| case.mark_of(id(i), i)).collect();
    let marked = case.all("marks of half of the ids", case.store.mark(&known).await)?;
    case.is(marked, vec![Marked::Fresh; known.len()])?;
    let both: Vec<Mark> = (0..size).map(|i| case.mark_of(id(i), size + i)).collect();
    let marked = case.all("marks of all ids", case.store.mark(&both).await)?;
    is("the number of answers", marked.len(), both.len())?;
    for (i, marked) in marked.into_iter().enumerate() {
        is(format!("the mark of id {i}, fresh if odd"), marked == Marked::Fresh, i % 2 == 1)?;
    }
    Ok(())
}

async fn empty_batches_have_no_answers(case: &Case) -> Checked {
    fn none<A: std::fmt::Debug>(case: &Case, asked: &str, answers: Answers<A>) -> Checked {
        let answers = case.all(asked, answers)?;
        case.ensure(answers.is_empty(), "no answers", answers.len())
    }
    let store = &case.store;
    none(case, "mark of nothing", store.mark(&[]).await)?;
    none(case, "unmark of nothing", store.unmark(&[]).await)?;
    none(case, "claim of nothing", store.claim(&[]).await)?;
    none(case, "completion of nothing", store.complete(&[]).await)?;
    none(case, "release of nothing", store.release(&[]).await)?;
    none(case, "failure of nothing", store.fail(&[]).await)?;
    none(case, "renewal of nothing", store.renew(&[]).await)?;
    none(case, "look-up of nothing", store.look_up(&[]).await)?;
    none(case, "record of nothing", store.record(&[]).await)?;
    none(case, "forget of nothing", store.forget(&[]).await)
}

async fn a_mark_sees_claims(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a mark sees claims").await;
    let in_progress = |marked| match marked {
        Marked::InProgress { lease_left } => case.is_about(lease_left, LEASE),
        other => case.ensure(false, "InProgress", other),
    };
    let token = case.token("completed", 1).await?;
    in_progress(case.mark("completed", 2).await?)?;
    case.is(case.complete("completed", token).await?, Held::Done)?;
    case.is_marked(case.mark("completed", 3).await?)?;

    let token = case.token("released", 4).await?;
    in_progress(case.mark("released", 5).await?)?;
    case.is(case.release("released", token).await?, Held::Done)?;
    case.is(case.mark("released", 6).await?, Marked::Fresh)?;

    case.token("expired", 7).await?;
    bench.advance(LEASE + bench.slack()).await;
    case.is(case.mark("expired", 8).await?, Marked::Fresh)
}

async fn times_that_cannot_be_are_refused(bench: &Bench<'_>) -> Checked {
    let case = bench.case("times that cannot be are refused").await;
    fn refused<A: std::fmt::Debug>(answers: Answers<A>, option: &str) -> Checked {
        let asked = format!("two requests, the first with a wrong `{option}`");
        let expected = format!("an error that names `{option}`, and an answer");
        match answers {
            Ok(answers) => {
                let is_right = match &answers[..] {
                    [Err(error), Ok(_)] => {
                        error.kind() == ErrorKind::Misconfigured && error.to_string().contains(&format!("`{option}`"))
                    }
                    _ => false,
                };
                ensure(asked, is_right, expected, answers)
            }
            Err(error) => ensure(asked, false, expected, error),
        }
    }
    let token = case.token("held", 1).await?;
    let hold = || case.hold("held", token);
    for (number, time) in (10..).step_by(10).zip([Duration::ZERO, Duration::MAX]) {
        let id = |what: &str| format!("{what} {number}");
        let mark = Mark { retention: time, ..case.mark_of(id("marked"), number) };
        refused(case.store.mark(&[mark, case.mark_of(id("other"), number + 1)]).await, "retention")?;
        let claim = ClaimRequest { lease: time, ..case.claim_of(id("claimed"), number + 2) };
        refused(case.store.claim(&[claim, case.claim_of(id("another"), number + 3)]).await, "lease")?;
        let renewals = [time, LEASE].map(|lease| Renewal { hold: hold(), lease });
        refused(case.store.renew(&renewals).await, "lease")?;
        let record = |id: &str, retention| Record { key: case.key(id), retention, fingerprint: None, result: None };
        let records = [record(&id("recorded"), time), record(&id("more"), RETENTION)];
        refused(case.store.record(&records).await, "retention")?;
        for what in ["marked", "claimed", "recorded"] {
            case.is(case.look_up(&id(what)).await?, Known::Unknown)?;
        }
    }
    let other = case.token("other", 90).await?;
    let failures = [("held", token, Duration::MAX), ("other", other, LEASE)]
        .map(|(id, token, retry_after)| ClaimFailure { hold: case.hold(id, token), retry_after });
    refused(case.store.fail(&failures).await, "retry_after")?;
    let other = case.token("yet another", 91).await?;
    let completions = [("held", token, Duration::MAX), ("yet another", other, RETENTION)]
        .map(|(id, token, retention)| Completion { retention, ..case.completion(id, token) });
    refused(case.store.complete(&completions).await, "retention")?;
    // It is held as before.
    case.is(case.complete("held", token).await?, Held::Done)
}

async fn ids_are_any_bytes(bench: &Bench<'_>) -> Checked {
    let case = bench.case("ids are any bytes").await;
    let long: Vec<Vec<u8>> = [46, 47, 48, 49, 200, 100_000].iter().map(|&len| vec![b'x'; len]).collect();
    let digests: Vec<Vec<u8>> =
        long.iter().map(|id| StoredId::new(id).as_bytes().to_vec()).filter(|id| id.len() == 48).collect();
    // Names that text, C, a database's collation, a fixed width, a template and a pattern take for
    // the same, with bars between them.
    const TEXTS: &str = "|\0|\0\0|0|False|false|FALSE| |\n|padded|padded | padded|{a}b|{a}c|{}|a:b|\
        '; DROP TABLE ids; --|\\x00|%s|$1|*|h?llo|[a]|ä|a\u{308}|Ä|\x01owner";
    let ids = TEXTS.split('|').map(str::as_bytes).chain([b"\xff\xfe".as_slice(), b"\xfe\xff"]);
    let ids: Vec<&[u8]> = ids.chain(long.iter().chain(&digests).map(Vec::as_slice)).collect();
    let marks: Vec<Mark> = (1..).zip(&ids).map(|(attempt, id)| case.mark_of(id, attempt)).collect();
    for (id, marked) in ids.iter().zip(case.all("marks of all ids", case.store.mark(&marks).await)?) {
        is(format!("the mark of \"{}\"", id.escape_ascii()), marked, Marked::Fresh)?;
    }
    let keys: Vec<RecordKey> = ids.iter().map(|id| case.key(id)).collect();
    for (key, known) in keys.iter().zip(case.all("look-ups of all ids", case.store.look_up(&keys).await)?) {
        ensure(format!("the look-up of {key}"), matches!(known, Known::Completed(_)), "Completed", known)?;
    }
    let forgotten = case.all("forgets of all ids", case.store.forget(&keys).await)?;
    case.is(forgotten, vec![true; keys.len()])
}

async fn scopes_are_namespaces(bench: &Bench<'_>) -> Checked {
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
        case.is(case.one(format!("mark of {pair:?}"), case.store.mark(&[mark]).await)?, Marked::Fresh)?;
    }
    for pair in pairs {
        let known = case.one(format!("look-up of {pair:?}"), case.store.look_up(&[key(pair)]).await)?;
        case.is_completed(known)?;
    }
    Ok(())
}
