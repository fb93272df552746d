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
        assert!(error.to_string().contains("of version 1, got version 7"), "{error}");
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
             ALTER FUNCTION {p}_once_kept RENAME TO {p}_once_9; ALTER FUNCTION {p}_once_batch_kept RENAME TO {p}_once_batch_9; \
             ALTER FUNCTION {p}_inbox_receive RENAME TO {p}_inbox_receive_9; \
             ALTER FUNCTION {p}_outbox_store_one RENAME TO {p}_outbox_store_one_9; \
             ALTER FUNCTION {p}_rotate RENAME TO {p}_rotate_9";
        place.execute(&client, sql).await;
        let refused = |error: &hapax_store::StoreError| {
            let what = error.to_string();
            let words = ["of version 1", "got version 9", "take the hapax that made them"];
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
