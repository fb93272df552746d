//! Marks in a caller's transaction.

use crate::*;
use hapax_store::ErrorKind;
use std::time::SystemTime;
use tokio_postgres::IsolationLevel;

#[test]
fn an_id_is_first_once_for_each_consumer_and_a_duplicate_says_since_when() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let before = SystemTime::now();
        for id in [b"m-1".as_slice(), b"", b"\0\xff", &[7; 5_000]] {
            assert_eq!(place.once(&mut client, "billing", id).await, Seen::First);
            let Seen::Duplicate { first_at } = place.once(&mut client, "billing", id).await else { panic!("{id:?}") };
            assert!(first_at + ms(1) >= before && first_at <= SystemTime::now() + ms(1), "{first_at:?}");
            assert!(place.once(&mut client, "shipping", id).await.is_first(), "another consumer");
        }
        let mut tx = client.transaction().await.unwrap();
        let error = inbox::once(&mut tx, &place.tables, "two\nlines", "m").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        // Nothing was sent to the server: the transaction is as it was.
        assert!(inbox::once(&mut tx, &place.tables, "lines", "m").await.unwrap().is_first());
        tx.rollback().await.unwrap();
        let mut tx = client.transaction().await.unwrap();
        let nowhere = Tables::new("public", "nowhere").unwrap();
        let error = inbox::once(&mut tx, &nowhere, "lines", "m").await.unwrap_err();
        assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("Tables::migrate"), "{error}");
    });
}

#[test]
fn a_mark_is_there_if_and_only_if_the_effect_is() {
    Place::run(async |place| {
        let mut client = place.client().await;
        place.execute(&client, "CREATE TABLE {p}_effects (id text)").await;
        let effect = format!("INSERT INTO {}_effects VALUES ('m')", place.prefix);
        for commits in [false, false, true] {
            let mut tx = client.transaction().await.unwrap();
            assert!(inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap().is_first());
            tx.batch_execute(&effect).await.unwrap();
            if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        }
        assert!(!place.once(&mut client, "c", "m").await.is_first());
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_effects").await, 1);
        // A savepoint, too.
        let mut tx = client.transaction().await.unwrap();
        let mut inner = tx.transaction().await.unwrap();
        assert!(inbox::once(&mut inner, &place.tables, "c", "n").await.unwrap().is_first());
        inner.rollback().await.unwrap();
        assert!(inbox::once(&mut tx, &place.tables, "c", "n").await.unwrap().is_first());
        assert!(!inbox::once(&mut tx, &place.tables, "c", "n").await.unwrap().is_first(), "its own");
        tx.commit().await.unwrap();
    });
}

#[test]
fn who_comes_second_waits_for_the_firsts_transaction_as_long_as_its_lock_timeout() {
    Place::run(async |place| {
        for commits in [true, false] {
            let (mut first, mut second, watcher) = (place.client().await, place.client().await, place.client().await);
            let id = format!("m-{commits}");
            let mut tx = first.transaction().await.unwrap();
            let holder = pid(&tx).await;
            assert!(inbox::once(&mut tx, &place.tables, "c", &id).await.unwrap().is_first());

            second.batch_execute("SET lock_timeout = '20ms'").await.unwrap();
            let mut late = second.transaction().await.unwrap();
            let error = inbox::once(&mut late, &place.tables, "c", &id).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            late.rollback().await.unwrap();

            second.batch_execute("RESET lock_timeout").await.unwrap();
            let seen = async { place.once(&mut second, "c", &id).await };
            let ends = async {
                until_somebody_waits(&watcher, holder).await;
                if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
            };
            let (seen, ()) = tokio::join!(seen, ends);
            assert_eq!(seen.is_first(), !commits);
        }
    });
}

#[test]
fn a_redelivery_behind_a_partitions_end_is_a_duplicate_and_first_again_behind_the_retention() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let retention = Retention::new(10 * HOUR, HOUR).unwrap();
        assert!(place.once(&mut client, "c", "old").await.is_first());
        for partition in 0..3 {
            let cleanup = place.grow_older(&client, retention, 2 * HOUR).await;
            assert_eq!((cleanup.begun, cleanup.dropped), (1, 0));
            assert!(!place.once(&mut client, "c", "old").await.is_first(), "{partition}");
            assert!(place.once(&mut client, "c", format!("new {partition}")).await.is_first());
        }
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_mark_buckets").await, 4);
        // Of the closed ones, the first two were closed more than ten hours ago.
        let cleanup = place.grow_older(&client, retention, 8 * HOUR).await;
        assert_eq!((cleanup.begun, cleanup.dropped), (1, 2));
        assert!(place.once(&mut client, "c", "old").await.is_first());
        assert!(place.once(&mut client, "c", "new 0").await.is_first());
        assert!(!place.once(&mut client, "c", "new 2").await.is_first());
        assert_eq!(retention.expire(&client, &place.tables).await.unwrap(), Cleanup::default(), "nothing is due");
    });
}

#[test]
fn of_a_batch_each_id_is_what_it_would_be_alone() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let before = SystemTime::now();
        assert!(place.once(&mut client, "c", "old").await.is_first());
        let retention = Retention::new(10 * HOUR, HOUR).unwrap();
        assert_eq!(place.grow_older(&client, retention, 2 * HOUR).await.begun, 1);
        assert!(place.once(&mut client, "c", "new").await.is_first());

        let ids: [&[u8]; 7] = [b"z", b"old", b"", b"z", b"new", &[7; 5_000], b"a"];
        let mut tx = client.transaction().await.unwrap();
        let seen = inbox::once_batch(&mut tx, &place.tables, "c", &ids).await.unwrap();
        let is_first: Vec<bool> = seen.iter().map(|seen| seen.is_first()).collect();
        assert_eq!(is_first, [true, false, true, false, false, true, true]);
        for seen in seen {
            let Seen::Duplicate { first_at } = seen else { continue };
            assert!(first_at + ms(1) >= before && first_at <= SystemTime::now() + ms(1), "{first_at:?}");
        }
        // Its own ids are duplicates, too, for either call.
        assert!(!inbox::once(&mut tx, &place.tables, "c", [7; 5_000]).await.unwrap().is_first());
        let again = inbox::once_batch(&mut tx, &place.tables, "c", &ids).await.unwrap();
        assert!(again.iter().all(|seen| !seen.is_first()), "{again:?}");
        tx.rollback().await.unwrap();
        for (id, first) in [("z", true), ("old", false), ("new", false)] {
            assert_eq!(place.once(&mut client, "c", id).await.is_first(), first, "{id}");
        }

        let mut tx = client.transaction().await.unwrap();
        let none: [&[u8]; 0] = [];
        assert!(inbox::once_batch(&mut tx, &place.tables, "c", &none).await.unwrap().is_empty());
        let many: Vec<[u8; 4]> = (0..=inbox::BATCH_IDS_MAX as u32).map(u32::to_be_bytes).collect();
        let error = inbox::once_batch(&mut tx, &place.tables, "c", &many).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("at most 1000"), "{error}");
        let most = inbox::once_batch(&mut tx, &place.tables, "c", &many[1..]).await.unwrap();
        assert!(most.len() == inbox::BATCH_IDS_MAX && most.iter().all(|seen| seen.is_first()));
    });
}

/// Checks two batches that would wait for each other in a circle if each marked in its own order.
#[test]
fn two_batches_of_the_same_ids_in_other_orders_both_end() {
    Place::run(async |place| {
        let ids: Vec<[u8; 4]> = (0..300_u32).map(u32::to_be_bytes).collect();
        let reversed: Vec<[u8; 4]> = ids.iter().rev().copied().collect();
        for round in 0..8 {
            let batch = async |ids: &[[u8; 4]]| {
                let mut client = place.client().await;
                let mut tx = client.transaction().await.unwrap();
                let consumer = format!("c{round}");
                let seen = inbox::once_batch(&mut tx, &place.tables, &consumer, ids).await.unwrap();
                tx.commit().await.unwrap();
                seen.iter().filter(|seen| seen.is_first()).count()
            };
            let (one, other) = tokio::join!(batch(&ids), batch(&reversed));
            assert_eq!(one + other, ids.len());
        }
    });
}

/// Checks that a transaction that sees an old state does not take an id for new that was marked
/// since, not even in a partition that has been closed since.
#[test]
fn a_transaction_that_sees_an_old_state_fails_and_marks_nothing_twice() {
    Place::run(async |place| {
        for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
            for is_closed in [false, true] {
                let (mut old, mut other) = (place.client().await, place.client().await);
                let id = format!("{level:?} {is_closed}");
                let mut tx = old.build_transaction().isolation_level(level).start().await.unwrap();
                tx.query("SELECT 1 FROM pg_class LIMIT 1", &[]).await.unwrap(); // from here on it sees this state
                if is_closed {
                    let retention = Retention::new(60 * HOUR, HOUR).unwrap();
                    assert_eq!(place.grow_older(&other, retention, 2 * HOUR).await.begun, 1);
                }
                assert!(place.once(&mut other, "c", &id).await.is_first());
                let error = inbox::once(&mut tx, &place.tables, "c", &id).await.unwrap_err();
                assert!(error.to_string().contains("40001"), "{id}: {error}");
                tx.rollback().await.unwrap();
                let mut tx = old.build_transaction().isolation_level(level).start().await.unwrap();
                assert!(!inbox::once(&mut tx, &place.tables, "c", &id).await.unwrap().is_first(), "{id}");
                assert!(inbox::once(&mut tx, &place.tables, "c", format!("{id} 2")).await.unwrap().is_first());
                tx.commit().await.unwrap();
            }
        }
    });
}

#[test]
fn roles_without_privileges_suffice_and_tables_are_made_once() {
    Place::run(async |place| {
        let admin = place.client().await;
        let sql = "CREATE SCHEMA {p}; CREATE ROLE {p}_owner LOGIN; CREATE ROLE {p}_clerk LOGIN; \
             GRANT CREATE, USAGE ON SCHEMA {p} TO {p}_owner; GRANT USAGE ON SCHEMA {p} TO {p}_clerk";
        place.execute(&admin, sql).await;
        let tables = Tables::new(&place.prefix, "select").unwrap();
        let address =
            |role: &str| place.server.address().replace("user=postgres", &format!("user={}_{role}", place.prefix));
        let owner = client(&address("owner")).await;
        let others = [client(&address("owner")).await, client(&address("owner")).await];
        let made = tokio::join!(tables.migrate(&owner), tables.migrate(&others[0]), tables.migrate(&others[1]));
        assert!(made.0.is_ok() && made.1.is_ok() && made.2.is_ok(), "{made:?}");
        owner.batch_execute(&tables.migrations()).await.unwrap();

        let mut clerk = client(&address("clerk")).await;
        assert_eq!(tables.migrate(&clerk).await.unwrap_err().kind(), ErrorKind::Misconfigured);
        let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {p} TO {p}_clerk; \
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA {p} TO {p}_clerk";
        place.execute(&owner, grant).await;
        tables.migrate(&clerk).await.unwrap(); // there is nothing to make
        for (id, first) in [("a", true), ("a", false), ("b", true)] {
            let mut tx = clerk.transaction().await.unwrap();
            assert_eq!(inbox::once(&mut tx, &tables, "c", id).await.unwrap().is_first(), first);
            let _ = inbox::receive(&mut tx, &tables, "d", NewMessage::new(id, "").key("k")).await.unwrap();
            outbox::enqueue(&mut tx, &tables, "t", NewMessage::new(id, "").key("k")).await.unwrap();
            tx.commit().await.unwrap();
            // A new partition needs no grant of its own.
            owner
                .batch_execute(&format!("UPDATE {}.select_mark_buckets SET opened_at = '-infinity'", place.prefix))
                .await
                .unwrap();
            Retention::new(HOUR, HOUR).unwrap().expire(&owner, &tables).await.unwrap();
            let mut tx = clerk.transaction().await.unwrap();
            assert_eq!(inbox::forget(&mut tx, &tables, "c", &[id]).await.unwrap(), 1);
            tx.rollback().await.unwrap();
        }
        let worker = Worker::new(options(&address("clerk")), tables.clone(), "d").unwrap();
        assert_eq!(worker.step(&Arc::new(Nothing)).await.unwrap(), 2);
        owner.batch_execute(&format!("UPDATE {}.select_flow_migrations SET version = 9", place.prefix)).await.unwrap();
        let error =
            Relay::new(options(&address("clerk")), tables.clone()).run(Arc::new(Nothing), std::future::pending()).await;
        assert!(error.as_ref().is_err_and(|error| error.to_string().contains("version 1, got version 9")), "{error:?}");
    });
}
