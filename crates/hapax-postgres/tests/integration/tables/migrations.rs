//! The making of tables, and tables of other versions.

use crate::*;
use hapax_store::ErrorKind;

/// Checks each default isolation level: `BEGIN` takes that of the role, the database or the
/// session, and a transaction that sees one state only does not see what another one has made while
/// it waited.
#[test]
fn tables_are_made_by_many_at_once_whatever_isolation_they_have_by_default() {
    Place::run(async |place| {
        for level in ["repeatable read", "serializable"] {
            let prefix = format!("{}_{}", place.prefix, &level[..6].trim());
            let tables = Arc::new(Tables::new("public", &prefix).unwrap());
            let mut makers = tokio::task::JoinSet::new();
            for _ in 0..8 {
                let (client, tables) = (place.client().await, Arc::clone(&tables));
                let session = format!("SET default_transaction_isolation = '{level}'");
                client.batch_execute(&session).await.unwrap();
                makers.spawn(async move { tables.migrate(&client).await });
            }
            let made = makers.join_all().await;
            assert!(made.iter().all(Result::is_ok), "{level}: {made:?}");
        }
    });
}

async fn names(place: &Place, client: &Client) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE '{p}v%') \
         + (SELECT count(*) FROM pg_proc WHERE proname LIKE '{p}v%')";
    place.count(client, sql).await
}

/// Checks that tables of a version that nobody knows are left alone: nothing is made next to them,
/// and nothing is removed.
#[test]
fn tables_of_another_version_are_refused_in_words_and_left_alone() {
    Place::run(async |place| {
        let client = place.client().await;
        let other = "CREATE TABLE {p}v_flow_migrations (version integer PRIMARY KEY, applied_at timestamptz); \
             INSERT INTO {p}v_flow_migrations VALUES (7)";
        place.execute(&client, other).await;
        let tables = Tables::new("public", &format!("{}v", place.prefix)).unwrap();
        let before = names(&place, &client).await;
        let error = tables.migrate(&client).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("of version 2, got version 7"), "{error}");
        // A program that makes tables by other means gets the error, too.
        let error = client.batch_execute(&tables.migrations()).await.unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("got version 7"), "{error:?}");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(names(&place, &client).await, before);
    });
}

#[test]
fn code_for_another_version_is_refused_and_never_wrong_in_silence() {
    Place::run(async |place| {
        let mut client = place.client().await;
        // Like tables whose functions mean something else.
        let sql = "UPDATE {p}_flow_migrations SET version = 9; \
             ALTER FUNCTION {p}_once RENAME TO {p}_once_9; ALTER FUNCTION {p}_once_batch_kept RENAME TO {p}_once_batch_9; \
             ALTER FUNCTION {p}_inbox_receive RENAME TO {p}_inbox_receive_9; \
             ALTER FUNCTION {p}_outbox_store_one RENAME TO {p}_outbox_store_one_9; \
             ALTER FUNCTION {p}_rotate RENAME TO {p}_rotate_9";
        place.execute(&client, sql).await;
        let refused = |error: &hapax_store::StoreError| {
            let what = error.to_string();
            let words = ["of version 2", "got version 9", "take the hapax that made them"];
            assert!(error.kind() == ErrorKind::Misconfigured && words.iter().all(|word| what.contains(word)), "{what}");
        };
        refused(&place.tables.migrate(&client).await.unwrap_err());
        refused(&place.relay().run(Arc::new(Nothing), std::future::pending()).await.unwrap_err());
        let gone = |error: hapax_store::StoreError| {
            let what = error.to_string();
            assert!(error.kind() == ErrorKind::Misconfigured && what.contains("of another version"), "{what}");
        };
        let (tables, message) = (&place.tables, NewMessage::new("m", ""));
        gone(inbox::once(&mut client.transaction().await.unwrap(), tables, "c", "m").await.unwrap_err());
        gone(inbox::once_batch(&mut client.transaction().await.unwrap(), tables, "c", &["m"]).await.unwrap_err());
        gone(inbox::receive(&mut client.transaction().await.unwrap(), tables, "c", message).await.unwrap_err());
        gone(outbox::enqueue(&mut client.transaction().await.unwrap(), tables, "t", message).await.unwrap_err());
        gone(Retention::new(HOUR, HOUR).unwrap().expire(&client, tables).await.unwrap_err());
    });
}

/// Checks that tables of an older version become those of this one, with all that is in them; and
/// that a process that begins before that is told what to do.
#[test]
fn tables_of_the_version_before_become_those_of_this_one_with_what_is_in_them() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let seed = "SELECT encode(seed, 'hex') FROM {p}_flow_migrations ORDER BY version DESC LIMIT 1";
        assert!(place.once(&mut client, "c", "m").await.is_first());
        assert!(place.receive(&mut client, "c", NewMessage::new("waits", "a")).await.is_first());
        let seed_before = place.text(&client, seed).await;
        let version_1 = "UPDATE {p}_flow_migrations SET version = 1; DROP INDEX {p}_inbox_id; \
             ALTER TABLE {p}_marks DROP COLUMN content, DROP COLUMN expires_at; \
             ALTER TABLE {p}_inbox DROP COLUMN other; CREATE UNIQUE INDEX {p}_inbox_id ON {p}_inbox (name, id); \
             DROP FUNCTION {p}_once, {p}_once_kept, {p}_mark, {p}_mark_kept, {p}_inbox_compare; \
             CREATE FUNCTION {p}_once(consumer text, id bytea) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN 7; END'";
        place.execute(&client, version_1).await;
        let refused = place.worker("c").run(Arc::new(Nothing), std::future::pending()).await.unwrap_err();
        assert!(refused.to_string().contains("got version 1: call Tables::migrate"), "{refused}");

        place.tables.migrate(&client).await.unwrap();
        client.batch_execute(&place.tables.migrations()).await.expect("it may be run again");
        assert_eq!(place.text(&client, seed).await, seed_before, "older processes have locks by it");
        assert!(!place.once(&mut client, "c", "m").await.is_first());
        assert!(place.once(&mut client, "c", "n").await.is_first());
        assert!(!place.receive(&mut client, "c", NewMessage::new("waits", "b")).await.is_first());
        let handled = Arc::new(Keeps::default());
        place.handle_all(&client, place.worker("c"), &handled).await;
        assert_eq!(handled.taken().len(), 1);
    });
}
