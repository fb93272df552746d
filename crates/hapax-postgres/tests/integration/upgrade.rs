//! Tables of version 2, made by the SQL of that version, are brought up to date.

use crate::described::Keeps;
use crate::handled::text;
use crate::*;
use hapax_postgres::inbox::{HandledQuery, NewMark};
use hapax_store::ErrorKind;
use std::time::Instant;

/// A server on which tables of version 2 are in use: `public.old_…`.
fn run<F: Future<Output = ()>>(test: impl FnOnce(Place) -> F) {
    Place::run_alone(async |place| {
        let client = place.client().await;
        client.batch_execute(include_str!("version_2.sql")).await.unwrap();
        let prefix = "old".to_owned();
        test(Place { server: Arc::clone(&place.server), tables: Tables::new("public", &prefix).unwrap(), prefix })
            .await;
    });
}

/// Receives a message as code of version 2 does.
async fn receive_as_before(place: &Place, client: &Client, id: &str, key: Option<&str>) -> Option<i64> {
    let sql = format!("SELECT {}_inbox_receive('c', $1, $1, $2, 'payload', '{{a,b}}', NULL, NULL)", place.prefix);
    let row = client.query_one(&sql, &[&id.as_bytes(), &key.map(str::as_bytes)]).await.unwrap();
    row.get(0)
}

async fn call_as_before(place: &Place, client: &Client) {
    let p = &place.prefix;
    let count = async |sql: String| client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0);
    let store = format!(
        "SELECT {p}_outbox_store('t', ARRAY['x'::bytea, 'y'], ARRAY[NULL::bytea, 'k'], ARRAY[''::bytea, ''], \
         ARRAY[NULL::text, NULL], ARRAY[NULL::float8, NULL], ARRAY[NULL::float8, NULL])"
    );
    assert_eq!(count(store).await, 2);
    count(format!("SELECT {p}_outbox_store_one('t', 'z', NULL, '', NULL, NULL, NULL)")).await;
    let claim = format!(
        "SELECT count(*) FROM (SELECT position, name, key, id, payload, headers, attempts, enqueued_at, is_expired, since, \
         since_position FROM {p}_outbox_claim(ARRAY['t'], ARRAY[0::bigint], ARRAY[0::bigint], 10, 15, 1000000, 1000, 7)) c"
    );
    assert!(count(claim).await >= 3);
    let capture =
        format!("SELECT {p}_capture('t', ARRAY['x'::bytea], ARRAY[NULL::bytea], ARRAY[''::bytea], ARRAY[NULL::text])");
    assert_eq!(count(capture).await, 1);
    count(format!("SELECT count(*) FROM (SELECT died_at, error, headers FROM {p}_inbox_letters(NULL, 0, 10)) l")).await;
}

#[test]
fn tables_of_version_2_are_brought_up_to_date_with_all_that_is_in_them() {
    run(async |place| {
        let (mut client, other) = (place.client().await, place.client().await);
        let roles = "CREATE ROLE old_clerk LOGIN; CREATE ROLE old_reader LOGIN; GRANT USAGE ON SCHEMA public TO PUBLIC; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO old_clerk; \
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO old_clerk; GRANT SELECT ON old_marks TO old_reader";
        place.execute(&client, roles).await;
        for (id, key) in [("a", None), ("b", Some("k")), ("c", Some("k")), ("dead", None)] {
            assert_eq!(receive_as_before(&place, &client, id, key).await, None);
        }
        place
            .execute(&client, "UPDATE {p}_inbox SET dead_at = now(), due_at = NULL, error = 'e' WHERE id = 'dead'")
            .await;
        // Several partitions of marks, by the rotation of version 2.
        for round in 0..3 {
            place.execute(&client, "UPDATE {p}_mark_buckets SET opened_at = opened_at - interval '2 hours'").await;
            let hour = 3_600_000_000_i64;
            for _ in 0..4 {
                let sql = format!("SELECT {}_rotate({hour}, {})", place.prefix, 60 * hour);
                client.query(&sql, &[]).await.unwrap();
            }
            assert_eq!(receive_as_before(&place, &client, &format!("r{round}"), None).await, None);
        }
        call_as_before(&place, &client).await;

        // Newer code is refused until they are.
        for refused in [
            place.relay().run(Arc::new(Keeps::default()), std::future::pending()).await.unwrap_err(),
            place.worker("c").run(Arc::new(Keeps::default()), std::future::pending()).await.unwrap_err(),
        ] {
            let what = refused.to_string();
            let words = ["of version 3, got version 2", "call Tables::migrate"];
            assert!(
                refused.kind() == ErrorKind::Misconfigured && words.iter().all(|word| what.contains(word)),
                "{what}"
            );
        }
        let mut makers = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let (client, tables) = (place.client().await, place.tables.clone());
            makers.spawn(async move { tables.migrate(&client).await });
        }
        let made = makers.join_all().await;
        assert!(made.iter().all(Result::is_ok), "{made:?}");

        // A clerk may use what is new without another grant, and a reader may read it.
        let address = |role: &str| place.server.address().replace("user=postgres", &format!("user=old_{role}"));
        let mut clerk = crate::client(&address("clerk")).await;
        let mut tx = clerk.transaction().await.unwrap();
        assert!(inbox::mark(&mut tx, &place.tables, "d", NewMark::new("m").subject("s")).await.unwrap().is_first());
        tx.commit().await.unwrap();
        let reader = crate::client(&address("reader")).await;
        reader.query("SELECT count(*) FROM old_handled", &[]).await.unwrap();
        assert!(reader.batch_execute("DELETE FROM old_handled").await.is_err());
        place.execute(&client, "GRANT SELECT ON old_mark_state TO old_reader").await;
        assert_eq!(crate::handled::list(&place, &reader, HandledQuery::of_subject("s")).await.len(), 1);

        // Marks and messages are as they were; older code goes on beside newer one.
        for id in ["a", "dead", "r0", "r2"] {
            assert!(!place.receive(&mut client, "c", NewMessage::new(id, "")).await.is_first(), "{id}");
        }
        assert!(receive_as_before(&place, &other, "r1", None).await.is_some());
        assert!(receive_as_before(&place, &other, "late", Some("k")).await.is_none());
        place
            .execute(
                &client,
                "UPDATE {p}_outbox SET due_at = now() WHERE key IS NULL; UPDATE {p}_outbox_keys SET due_at = now()",
            )
            .await;
        call_as_before(&place, &other).await;
        let described = NewMessage::new("new", "").kind("paid").subject("order-17").key("k");
        assert!(place.receive(&mut client, "c", described).await.is_first());
        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        assert_eq!((letters.len(), letters[0].error.as_str()), (1, "e"));
        assert_eq!(inbox::requeue(&client, &place.tables, Letters::Of(None)).await.unwrap(), 1);
        let keeps = Arc::new(Keeps::default());
        let worker = Worker::new(options(&address("clerk")), place.tables.clone(), "c").unwrap().keep(Keep::Messages);
        while worker.step(&keeps).await.unwrap() > 0 {}
        let taken = keeps.taken();
        let mut ids: Vec<String> = taken.iter().map(|message| text(&message.id)).collect();
        let of_key = taken.iter().filter(|message| message.key.is_some()).map(|message| text(&message.id));
        assert_eq!(of_key.collect::<Vec<_>>(), ["b", "c", "late", "new"]);
        ids.sort();
        assert_eq!(ids, ["a", "b", "c", "dead", "late", "new", "r0", "r1", "r2"]);
        assert!(
            taken
                .iter()
                .filter(|message| message.id != b"new" && message.id != b"dead")
                .all(|message| { message.kind.is_none() && message.headers == [("a".to_owned(), "b".to_owned())] })
        );
        let events = crate::handled::list(&place, &client, HandledQuery::all().consumer("c")).await;
        assert_eq!(events.len(), 9);
        // Partitions go on, and all slots are there.
        let cleanup = crate::handled::grow_older(&place, &client, 100).await;
        assert!(cleanup.begun == 1 && cleanup.dropped >= 3, "{cleanup:?}");
        assert_eq!(crate::handled::grow_older(&place, &client, 100).await.dropped, 1);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_handled").await, 0);
    });
}

/// Brings tables up to date beside transactions that hold and take locks in any order: none of them
/// is undone, and none waits for long.
#[test]
fn transactions_beside_an_upgrade_are_not_undone_and_do_not_wait_for_long() {
    run(async |place| {
        let place = Arc::new(place);
        let (mut holder, mut waiter) = (place.client().await, place.client().await);
        // It has the inbox, and will want the outbox.
        let tx = holder.transaction().await.unwrap();
        receive_in(&place, &tx, "m").await;
        let migrates = async { place.tables.migrate(&place.client().await).await };
        let watcher = place.client().await;
        let holds = pid(&tx).await;
        let goes_on = async {
            crate::until_somebody_waits(&watcher, holds).await;
            // If it waited for the upgrade until that has its locks, it would wait for ever.
            let goes_on = async {
                let other = waiter.transaction().await.unwrap();
                receive_in(&place, &other, "n").await;
                other.commit().await.unwrap();
            };
            tokio::time::timeout(PATIENCE, goes_on).await.expect("it waits for the upgrade");
            let sql = format!("SELECT {}_outbox_store_one('t', 'm', NULL, '', NULL, NULL, NULL)", place.prefix);
            tx.query(&sql, &[]).await.unwrap();
            tokio::time::sleep(ms(1_500)).await;
            tx.query(&sql, &[]).await.unwrap();
            tx.commit().await.unwrap();
        };
        let (migrated, ()) = tokio::join!(migrates, goes_on);
        migrated.unwrap();
        let client = place.client().await;
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_inbox").await, 2);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_outbox").await, 2);
    });
}

async fn receive_in(place: &Place, tx: &tokio_postgres::Transaction<'_>, id: &str) {
    let sql = format!("SELECT {}_inbox_receive('c', $1, $1, NULL, '', NULL, NULL, NULL)", place.prefix);
    tx.query(&sql, &[&id.as_bytes()]).await.unwrap();
}

#[test]
fn an_upgrade_beside_a_transaction_that_does_not_end_changes_nothing_and_can_be_tried_again() {
    run(async |place| {
        let (mut holder, client) = (place.client().await, place.client().await);
        let tx = holder.transaction().await.unwrap();
        receive_in(&place, &tx, "m").await;
        let began = Instant::now();
        let error = place.tables.migrate(&client).await.unwrap_err();
        println!("it gave up after {:?}", began.elapsed());
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        tx.commit().await.unwrap();
        assert_eq!(place.count(&client, "SELECT max(version)::bigint FROM {p}_flow_migrations").await, 2);
        assert_eq!(place.count(&client, "SELECT count(*) FROM pg_class WHERE relname LIKE 'old_handled%'").await, 0);
        call_as_before(&place, &client).await;
        place.tables.migrate(&client).await.unwrap();
        assert_eq!(place.count(&client, "SELECT max(version)::bigint FROM {p}_flow_migrations").await, 3);
        assert_eq!(client.query_one("SHOW lock_timeout", &[]).await.unwrap().get::<_, String>(0), "0");
    });
}
