//! Batches whose iterator panics: the items that were taken are processed.

use super::*;

/// Returns the first items, and then panics.
fn panics_after<T>(count: usize, items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    items.into_iter().enumerate().map(move |(i, item)| {
        assert!(i < count, "as it should");
        item
    })
}

fn catches(call: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    let text = panic.downcast_ref::<&str>().copied().unwrap_or_default();
    assert_eq!(text, "as it should");
}

#[test]
fn what_was_taken_to_be_completed_is_completed_even_if_the_rest_panics() {
    for (all, taken) in [(10, 5), (10, 0), (3_000, 2_500)] {
        let (dedup, _) = engine();
        let ids = 0..all as u32;
        let (mut attempts, mut ended) = (Vec::new(), Vec::new());
        dedup.claim_batch(ids.clone().map(u32::to_be_bytes), &mut attempts);
        let claims: Vec<_> = attempts.drain(..).filter_map(Attempt::claimed).collect();
        assert_eq!(claims.len(), all);
        catches(|| dedup.complete_batch(panics_after(taken, claims), &mut ended));
        assert_eq!(ended, vec![Ok(()); taken], "what is said of those that were taken");
        for id in ids {
            let attempt = dedup.claim(id.to_be_bytes());
            let is_done = attempt.is_duplicate();
            // The one that panicked was dropped, as those after it.
            assert_eq!(is_done, (id as usize) < taken, "{id} of {all}, {taken} taken: {attempt:?}");
            assert!(is_done || attempt.claimed().is_some());
        }
    }
}

#[test]
fn what_was_taken_of_another_engine_is_completed_too() {
    let ((dedup, _), (other, _)) = (engine(), engine());
    let claims: Vec<_> = [&other, &dedup, &dedup].map(|engine| engine.claim("a")).into_iter().collect();
    assert!(claims[2].is_in_progress());
    let claims = claims.into_iter().filter_map(Attempt::claimed).chain(dedup.claim("b").claimed());
    let mut ended = Vec::new();
    catches(|| dedup.complete_batch(panics_after(2, claims), &mut ended));
    assert_eq!(ended, [Ok(()), Ok(())]);
    assert!(dedup.claim("a").is_duplicate() && other.claim("a").is_duplicate());
    assert!(dedup.claim("b").claimed().is_some());
}

#[test]
fn what_was_claimed_before_ids_panic_is_held_or_released_and_nothing_else_is_claimed() {
    for keeps in [true, false] {
        let (dedup, _) = engine();
        let mut attempts = Vec::new();
        let ids = (0..3_000_u32).map(u32::to_be_bytes);
        catches(|| dedup.claim_batch(panics_after(2_500, ids), &mut attempts));
        let claimed = attempts.iter().filter(|attempt| matches!(attempt, Attempt::Claimed(_))).count();
        assert_eq!(dedup.stats().claims.live, claimed as u64);
        if !keeps {
            attempts.clear();
        }
        for id in 0..3_000_u32 {
            let is_held = keeps && (id as usize) < claimed;
            assert_eq!(dedup.claim(id.to_be_bytes()).is_in_progress(), is_held, "{id}, {claimed} claimed");
        }
    }
}

#[test]
fn what_was_checked_before_ids_panic_has_its_verdict() {
    let (dedup, _) = engine();
    let mut verdicts = Vec::new();
    catches(|| dedup.check_batch(panics_after(2_500, (0..3_000_u32).map(u32::to_be_bytes)), &mut verdicts));
    for id in 0..3_000_u32 {
        let was_accepted = verdicts.get(id as usize).is_some_and(|verdict| verdict.is_fresh());
        assert_eq!(dedup.check(id.to_be_bytes()).is_duplicate(), was_accepted, "{id} of {} verdicts", verdicts.len());
    }
}
