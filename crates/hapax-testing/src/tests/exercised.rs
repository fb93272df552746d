//! Reports of handmade histories: the rules that they exercised, and the ids that were live.

use super::handmade::SEMANTICS;
use crate::{Event, Interval, Operation, Report, Rule, Semantics, check_history};
use Event::{Claimed, Completed, Duplicate, Forget, Fresh, InProgress, Lost, Mismatch, Renewed};
use hapax::Timestamp;
use std::time::Duration;

/// The columns of a row: id, thread, invoked, returned, at, event.
type Row = (u64, u16, u64, u64, u64, Event);

fn report(semantics: &Semantics, operations: &[Operation], evicted: u64) -> Report {
    check_history(operations, semantics, evicted).unwrap_or_else(|violation| panic!("{violation}"))
}

fn history(rows: &[Row]) -> Vec<Operation> {
    let operation = |&(id, thread, invoked, returned, at, event): &Row| {
        let (at, interval) = (Timestamp::from_nanos(at), Interval { invoked, returned });
        Operation { id, at, interval, thread, event, ..Operation::default() }
    };
    rows.iter().map(operation).collect()
}

#[track_caller]
fn assert_exercises(rule: Rule, semantics: &Semantics, with: &[Operation], without: &[Operation]) {
    let never = |operations: &[Operation]| report(semantics, operations, 0).never_exercised().any(|one| one == rule);
    assert!(!never(with), "{rule:?} was exercised");
    assert!(never(without), "{rule:?} was not exercised");
}

#[test]
fn each_rule_is_exercised_by_what_it_says() {
    let fresh = (1, 0, 1, 2, 0, Fresh);
    let again = |at, event| history(&[fresh, (1, 0, 3, 4, at, event)]);
    assert_exercises(Rule::Expiry, &SEMANTICS, &again(110, Fresh), &again(99, Duplicate));
    let edges = |at| history(&[fresh, (1, 0, 3, 4, 99, Duplicate), (2, 0, 5, 6, 99, Fresh), (1, 0, 7, 8, at, Fresh)]);
    assert_exercises(Rule::Edges, &SEMANTICS, &edges(100), &edges(101));
    let overlap = |invoked| history(&[fresh, (1, 1, invoked, 4, 0, Duplicate)]);
    assert_exercises(Rule::Overlap, &SEMANTICS, &overlap(2), &overlap(3));
    let behind = |at| history(&[(2, 1, 1, 2, 50, Fresh), (1, 0, 3, 4, at, Fresh)]);
    assert_exercises(Rule::ClocksThatDiffer, &SEMANTICS, &behind(49), &behind(50));
    let refresh = Semantics { refresh_on_duplicate: true, ..SEMANTICS };
    let extended = |at| history(&[fresh, (1, 0, 3, 4, 80, Duplicate), (1, 0, 5, 6, at, Duplicate)]);
    assert_exercises(Rule::Extension, &refresh, &extended(120), &extended(99));
    let forget = |until| history(&[fresh, (1, 1, 3, until, 0, Forget), (1, 0, 5, 6, 1, Fresh)]);
    assert_exercises(Rule::ForgettingMeanwhile, &SEMANTICS, &forget(5), &forget(4));
    assert_exercises(Rule::Forgetting, &SEMANTICS, &forget(4), &history(&[fresh]));
    let batch = |number| {
        let mut operations = history(&[fresh, (1, 0, 1, 2, 0, Duplicate)]);
        (operations[0].batch, operations[1].batch) = (1, number);
        operations
    };
    assert_exercises(Rule::TwiceInABatch, &SEMANTICS, &batch(1), &batch(2));
    assert_exercises(Rule::TwiceInABatch, &SEMANTICS, &batch(1), &history(&[fresh, (1, 0, 1, 2, 0, Duplicate)]));
}

#[test]
fn the_rules_of_claims_are_exercised_by_what_they_say() {
    let leases = Semantics { lease: Some(Duration::from_nanos(50)), ..SEMANTICS };
    let claimed = (1, 0, 1, 2, 0, Claimed);
    let then = |rows: &[Row]| history(&[&[claimed], rows].concat());
    assert_exercises(Rule::Claims, &leases, &then(&[]), &history(&[(1, 0, 1, 2, 0, Fresh)]));
    let taken = [(1, 1, 3, 4, 60, Claimed)];
    let kept = [(1, 1, 3, 4, 49, InProgress)];
    assert_exercises(Rule::TakeOver, &leases, &then(&taken), &then(&kept));
    assert_exercises(Rule::LateHolder, &leases, &then(&[taken[0], (1, 0, 5, 6, 61, Lost)]), &then(&taken));
    assert_exercises(Rule::Renewal, &leases, &then(&[(1, 0, 3, 4, 1, Renewed)]), &then(&kept));
    let mismatch = |event| {
        let mut operations = then(&[(1, 0, 3, 4, 1, Completed), (1, 1, 5, 6, 2, event)]);
        (operations[0].fingerprint, operations[2].fingerprint) = (1, 2);
        operations
    };
    assert_exercises(Rule::Mismatch, &leases, &mismatch(Mismatch), &mismatch(Duplicate));
    // Claims that last end by themselves never, and there is nothing to say of that.
    let never = |semantics| report(semantics, &then(&[]), 0).never_exercised().collect::<Vec<_>>();
    assert!(never(&leases).contains(&Rule::TakeOver) && !never(&SEMANTICS).contains(&Rule::TakeOver));
}

#[test]
fn the_most_ids_that_were_live_at_once_are_counted() {
    let fresh = |id, at| (id, 0, 2 * at + 1, 2 * at + 2, at, Fresh);
    let live = |rows: &[Row]| report(&SEMANTICS, &history(rows), 0).live_max;
    assert_eq!(live(&[]), 0);
    assert_eq!(live(&[fresh(1, 0), fresh(2, 50), fresh(3, 99)]), 3);
    assert_eq!(live(&[fresh(1, 0), fresh(2, 50), fresh(3, 100)]), 2, "the first is over");
    assert_eq!(live(&[fresh(1, 0), fresh(1, 110), fresh(1, 220)]), 1, "one id");
    assert_eq!(live(&[fresh(1, 0), (1, 0, 3, 4, 1, Forget), fresh(2, 2)]), 1, "the first was forgotten");
    assert_eq!(live(&[fresh(1, 0), (2, 0, 3, 4, 1, Claimed), fresh(3, 2)]), 3, "claims take room");
}

#[test]
fn a_limit_that_is_never_reached_is_said_with_what_to_change() {
    let operations = history(&[(1, 0, 1, 2, 0, Fresh), (2, 0, 3, 4, 1, Fresh)]);
    let text = report(&SEMANTICS, &operations, 0).to_string();
    assert!(text.contains("at most 2 ids live at once\n"), "{text}");
    let line = "never exercised: no id had to go before its time, that was counted \
                (to change that: more `ids` in a window than the subject has room for)";
    assert!(text.ends_with(line), "{text}");
    let evicted = report(&SEMANTICS, &operations, 1).to_string();
    assert!(!evicted.contains("had to go"), "{evicted}");
}
