//! Flawed versions of the functions in the database: the tests of right ones notice each.

use crate::handling::handled::{forget_all, rotate_all};
use crate::handling::requeued::operators;
use crate::tables::ahead::finds_what_is_in_front;
use crate::*;
use futures_util::FutureExt as _;
use std::panic::AssertUnwindSafe;

/// Makes a function again with a flaw: the text, of which there is at least one, is replaced.
async fn flaw(place: &Place, client: &Client, function: &str, right: &str, wrong: &str) {
    let sql = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1";
    let function = format!("{}_{function}", place.prefix);
    let made: String = client.query_one(sql, &[&function]).await.unwrap().get(0);
    let (right, wrong) = (right.replace("{p}", &place.prefix), wrong.replace("{p}", &place.prefix));
    assert!(made.contains(&right), "{function} has no {right:?}");
    client.batch_execute(&made.replace(&right, &wrong)).await.unwrap();
}

/// Returns true if a test fails.
async fn fails(test: impl Future<Output = ()>) -> bool {
    AssertUnwindSafe(test).catch_unwind().await.is_err()
}

#[test]
fn a_requeueing_without_its_fence_is_noticed() {
    for (right, wrong) in [
        // Nothing says that it was requeued.
        ("SET requeued_at = clock_timestamp()", "SET requeued_at = NULL"),
        // What was requeued is taken again.
        ("AND h.requeued_at IS NULL", ""),
    ] {
        Place::run(async |place| {
            let mut client = place.client().await;
            flaw(&place, &client, "handled_requeue", right, wrong).await;
            assert!(fails(operators(&place, &mut client, 20)).await, "{wrong:?}");
        });
    }
}

#[test]
fn a_message_that_is_kept_without_its_content_or_not_removed_is_noticed() {
    Place::run(async |place| {
        let mut client = place.client().await;
        flaw(&place, &client, "inbox_finish", "_is_whole THEN g.payload", "NOT _is_whole THEN g.payload").await;
        assert!(fails(operators(&place, &mut client, 5)).await);
    });
}

#[test]
fn a_rotation_that_leaves_what_was_handled_is_noticed() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let marks_alone = "'TRUNCATE ' || split_part(slots, ', ', 1)";
        flaw(&place, &client, "rotate", "'TRUNCATE ' || slots", marks_alone).await;
        assert!(fails(rotate_all(&place, &mut client)).await);
    });
}

#[test]
fn forgetting_in_a_part_of_the_buckets_is_noticed() {
    for (right, wrong) in [
        ("looked := newest - oldest + 1", "looked := newest - oldest"),
        ("looked := newest - oldest + 1", "looked := 1"),
        ("m.consumer = $1 AND m.id", "m.id"),
    ] {
        Place::run(async |place| {
            let mut client = place.client().await;
            flaw(&place, &client, "forget", right, wrong).await;
            assert!(fails(forget_all(&place, &mut client)).await, "{wrong:?}");
        });
    }
}

#[test]
fn a_claim_that_never_looks_in_front_of_the_last_is_noticed() {
    Place::run(async |place| {
        let client = place.client().await;
        flaw(&place, &client, "outbox_take", "'500 milliseconds'", "'500 years'").await;
        assert!(fails(finds_what_is_in_front(&place, &client)).await);
    });
}
