//! Positions and numbers that are given out once more, as after a failover: no statement takes a
//! message for the one that had them before. See `docs/design/names.md`.

use crate::*;
use hapax_postgres::inbox::{Finished, HandledQuery};

/// Forgets all that was committed, as a standby does that has not heard of it.
const LOSE: &str = "DELETE FROM {p}_outbox; DELETE FROM {p}_outbox_keys; DELETE FROM {p}_outbox_claims; \
     DELETE FROM {p}_inbox; DELETE FROM {p}_inbox_keys; DELETE FROM {p}_inbox_claims; \
     DELETE FROM {p}_marks; DELETE FROM {p}_handled; ALTER SEQUENCE {p}_handled_number RESTART; \
     ALTER TABLE {p}_outbox ALTER position RESTART; ALTER TABLE {p}_inbox ALTER position RESTART";

/// Statements of whoever claimed the first message by the token 77, and of an operator who has seen
/// it as a dead letter. K is its key.
const STATEMENTS: [(&str, &str); 7] = [
    (
        "done",
        "SELECT * FROM {p}_outbox_settle('{1}', '{77}', '{}', '{}', '{}', '{}', '{}', '{}', '{t}', ARRAY[K], '{77}', '{0}', '{}', 0)",
    ),
    (
        "failed",
        "SELECT * FROM {p}_outbox_settle('{}', '{}', '{1}', '{77}', '{1}', '{no}', '{0}', '{0}', '{}', '{}', '{}', '{}', '{}', 0)",
    ),
    (
        "given up",
        "SELECT * FROM {p}_outbox_settle('{}', '{}', '{1}', '{77}', '{1}', '{no}', '{1}', '{0}', '{}', '{}', '{}', '{}', '{}', 0)",
    ),
    (
        "given back",
        "SELECT * FROM {p}_outbox_settle('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{t}', ARRAY[K], '{77}', '{0}', '{}', 0)",
    ),
    ("begun", "SELECT {p}_outbox_begin('t', ARRAY[K], '{77}', '{1}', 1e6, 1e6)"),
    ("requeued", "SELECT {p}_outbox_requeue('{1}', '{77}', NULL::text, NULL::float8, 10)"),
    ("discarded", "SELECT {p}_outbox_discard('{1}', '{77}', NULL::text, NULL::float8, 10)"),
];

const FOR_LETTERS: [&str; 2] = ["requeued", "discarded"];

/// The states in which another message may be that has the position now; with token 77, it is the
/// one that is meant.
const STATES: [(&str, &str); 3] = [
    ("waits", "SELECT"),
    (
        "is claimed",
        "SELECT FROM {p}_outbox_take('{t}', '{0}', '{0}', '{}', '{}', false, 10, 10, 1000000, 1e7, 78); \
         UPDATE {p}_outbox SET token = 78, attempts = 1",
    ),
    ("is dead", "UPDATE {p}_outbox SET dead_at = now(), due_at = NULL, token = 78"),
];

async fn all(place: &Place, client: &Client) -> String {
    let sql = "SELECT coalesce(string_agg(s, ' '), '') FROM (SELECT m::text FROM {p}_outbox m UNION ALL SELECT k::text FROM {p}_outbox_keys k) a(s)";
    client.query_one(&sql.replace("{p}", &place.prefix), &[]).await.unwrap().get(0)
}

#[test]
fn what_is_said_of_a_message_is_said_of_no_other_that_has_its_position() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for (state, becomes) in STATES {
            for (said, sql) in STATEMENTS {
                for (key, is_own) in [(None, false), (Some("k"), false), (None, true), (Some("k"), true)] {
                    place.execute(&client, LOSE).await;
                    let message = NewMessage::new("other", "");
                    let message = key.map_or(message, |key| message.key(key));
                    place.enqueue(&mut client, "t", message).await;
                    assert_eq!(place.count(&client, "SELECT position FROM {p}_outbox").await, 1);
                    place
                        .execute(&client, &if is_own { becomes.replace("78", "77") } else { becomes.to_owned() })
                        .await;
                    let before = all(&place, &client).await;
                    let literal = key.map_or("NULL::bytea".to_owned(), |key| format!("'{key}'::bytea"));
                    place.execute(&client, &sql.replace('K', &literal)).await;
                    let is_changed = all(&place, &client).await != before;
                    // Of its own: what is claimed is settled, a letter is requeued or discarded. (A
                    // message without a key is given back by itself.)
                    let is_meant = match state {
                        "is claimed" => !FOR_LETTERS.contains(&said) && (said != "given back" || key.is_some()),
                        "is dead" => FOR_LETTERS.contains(&said),
                        _ => false,
                    };
                    assert_eq!(is_changed, is_own && is_meant, "{said}, {key:?}, own: {is_own}, one that {state}");
                }
            }
        }
    });
}

#[test]
fn a_letter_that_was_listed_is_no_other_that_has_its_position() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let mut listed = Vec::new();
        for id in ["lost", "other"] {
            place.execute(&client, LOSE).await;
            assert!(place.receive(&mut client, "c", NewMessage::new(id, "")).await.is_first());
            assert_eq!(place.worker("c").step(&Arc::new(GivesUp)).await.unwrap(), 1);
            listed.push(inbox::dead_letters(&client, &place.tables, None, 0, 10).await.unwrap());
        }
        assert_eq!(listed[0][0].position, listed[1][0].position);
        let [lost, other] = [0, 1].map(|at: usize| Letters::These(&listed[at]));
        assert_eq!(inbox::discard(&client, &place.tables, lost).await.unwrap(), 0);
        assert_eq!(inbox::requeue(&client, &place.tables, lost).await.unwrap(), 0);
        assert_eq!(inbox::requeue(&client, &place.tables, other).await.unwrap(), 1);
    });
}

#[test]
fn an_event_that_was_listed_is_no_other_that_has_its_number() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let mut listed = Vec::new();
        for id in ["lost", "other"] {
            place.execute(&client, LOSE).await;
            assert!(place.receive(&mut client, "c", NewMessage::new(id, "")).await.is_first());
            let worker = place.worker("c").keep(Keep::Messages);
            assert_eq!(worker.step(&Arc::new(Keeps::default())).await.unwrap(), 1);
            listed.push(inbox::handled(&client, &place.tables, HandledQuery::all()).await.unwrap());
        }
        assert_eq!(listed[0][0].number, listed[1][0].number);
        let requeue = async |at: usize| {
            inbox::requeue_handled(&client, &place.tables, Finished::These(&listed[at])).await.unwrap()
        };
        assert_eq!((requeue(0).await, requeue(1).await), (0, 1));
    });
}
