//! Marks in a caller's transaction.

use crate::*;
use hapax::store::ErrorKind;
use std::time::SystemTime;
use tokio::task::JoinSet;
use tokio_postgres::IsolationLevel;

/// Marks, and commits.
async fn once(place: &Place, client: &mut Client, consumer: &str, id: impl AsRef<[u8]>) -> Seen {
    let mut tx = client.transaction().await.unwrap();
    let seen = inbox::once(&mut tx, &place.tables, consumer, id).await.unwrap();
    tx.commit().await.unwrap();
    seen
}

/// Makes all partitions older, and cleans up until nothing is due.
async fn grow_older(place: &Place, client: &mut Client, retention: Retention, by: Duration) -> Cleanup {
    let by = format!("interval '{} microseconds'", by.as_micros());
    let sql = format!("UPDATE {{p}}_mark_buckets SET opened_at = opened_at - {by}, closed_at = closed_at - {by}");
    place.execute(client, &sql).await;
    let mut all = Cleanup::default();
    loop {
        let done = retention.expire(client, &place.tables).await.unwrap();
        (all.begun, all.dropped) = (all.begun + done.begun, all.dropped + done.dropped);
        if !done.more {
            return all;
        }
    }
}

#[test]
fn an_id_is_first_once_for_each_consumer_and_a_duplicate_says_since_when() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let before = SystemTime::now();
        for id in [b"m-1".as_slice(), b"", b"\0\xff", &[7; 5_000]] {
            assert_eq!(once(&place, &mut client, "billing", id).await, Seen::First);
            let Seen::Duplicate { first_at } = once(&place, &mut client, "billing", id).await else { panic!("{id:?}") };
            assert!(first_at + ms(1) >= before && first_at <= SystemTime::now() + ms(1), "{first_at:?}");
            assert!(once(&place, &mut client, "shipping", id).await.is_first(), "another consumer");
        }
        let mut tx = client.transaction().await.unwrap();
        let error = inbox::once(&mut tx, &place.tables, "two\nlines", "m").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        // Nothing was said to the server: the transaction is as it was.
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
            match commits {
                true => tx.commit().await.unwrap(),
                false => tx.rollback().await.unwrap(),
            }
        }
        assert!(!once(&place, &mut client, "c", "m").await.is_first());
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
            let seen = async { once(&place, &mut second, "c", &id).await };
            let ends = async {
                until_somebody_waits(&watcher, holder).await;
                match commits {
                    true => tx.commit().await.unwrap(),
                    false => tx.rollback().await.unwrap(),
                }
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
        assert!(once(&place, &mut client, "c", "old").await.is_first());
        for partition in 0..3 {
            let cleanup = grow_older(&place, &mut client, retention, 2 * HOUR).await;
            assert_eq!((cleanup.begun, cleanup.dropped), (1, 0));
            assert!(!once(&place, &mut client, "c", "old").await.is_first(), "{partition}");
            assert!(once(&place, &mut client, "c", format!("new {partition}")).await.is_first());
        }
        let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'public.{p}_marks'::regclass";
        assert_eq!(place.count(&client, partitions).await, 4);
        // Of the closed ones, the first two were closed more than ten hours ago.
        let cleanup = grow_older(&place, &mut client, retention, 8 * HOUR).await;
        assert_eq!((cleanup.begun, cleanup.dropped), (1, 2));
        assert!(once(&place, &mut client, "c", "old").await.is_first());
        assert!(once(&place, &mut client, "c", "new 0").await.is_first());
        assert!(!once(&place, &mut client, "c", "new 2").await.is_first());
        assert_eq!(retention.expire(&mut client, &place.tables).await.unwrap(), Cleanup::default(), "nothing is due");
    });
}

#[test]
fn no_partition_is_begun_while_somebody_writes_into_the_last() {
    Place::run(async |place| {
        let (mut writer, mut cleaner) = (place.client().await, place.client().await);
        place.execute(&cleaner, "UPDATE {p}_mark_buckets SET opened_at = opened_at - interval '2 hours'").await;
        let retention = Retention::new(10 * HOUR, HOUR).unwrap();
        let mut tx = writer.transaction().await.unwrap();
        assert!(inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap().is_first());
        let error = retention.expire(&mut cleaner, &place.tables).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        tx.commit().await.unwrap();
        assert_eq!(retention.expire(&mut cleaner, &place.tables).await.unwrap().begun, 1);
        assert!(!once(&place, &mut cleaner, "c", "m").await.is_first());
    });
}

/// A transaction that sees one state only must not take an id for new that was marked since, not even in a partition
/// that has been closed since.
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
                    let retention = Retention::new(1_000 * HOUR, HOUR).unwrap();
                    assert_eq!(grow_older(&place, &mut other, retention, 2 * HOUR).await.begun, 1);
                }
                assert!(once(&place, &mut other, "c", &id).await.is_first());
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
fn of_many_that_race_while_partitions_begin_one_is_first() {
    Place::run(async |place| {
        let (place, ids, tasks) = (Arc::new(place), 120_u64, 6);
        let mut races = JoinSet::new();
        let mut random = Random::new();
        for _ in 0..tasks {
            let (place, mut order) = (Arc::clone(&place), (0..ids).collect::<Vec<_>>());
            // Neighbours change places: all race, and each has an order of its own.
            (0..ids as usize - 1).for_each(|i| order.swap(i, i + random.below(2) as usize));
            races.spawn(async move {
                let (mut client, mut first) = (place.client().await, Vec::new());
                for id in order {
                    if once(&place, &mut client, "c", id.to_be_bytes()).await.is_first() {
                        first.push(id);
                    }
                }
                first
            });
        }
        let mut client = place.client().await;
        let (mut begun, retention) = (0, Retention::new(1_000 * HOUR, HOUR).unwrap());
        let mut first = Vec::new();
        while first.len() < tasks {
            tokio::select! {
                Some(raced) = races.join_next() => first.push(raced.unwrap()),
                cleanup = grow_older(&place, &mut client, retention, 2 * HOUR) => begun += cleanup.begun,
            }
        }
        let mut first = first.concat();
        first.sort_unstable();
        assert_eq!(first, (0..ids).collect::<Vec<_>>());
        assert!(begun > 3, "only {begun} partitions were begun");
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
        let mut owner = client(&address("owner")).await;
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
            Retention::new(HOUR, HOUR).unwrap().expire(&mut owner, &tables).await.unwrap();
        }
        let worker = Worker::new(options(&address("clerk")), tables.clone(), "d").unwrap();
        assert_eq!(worker.step(&Arc::new(Nothing)).await.unwrap(), 2);
        owner.batch_execute(&format!("UPDATE {}.select_flow_migrations SET version = 9", place.prefix)).await.unwrap();
        let error =
            Relay::new(options(&address("clerk")), tables.clone()).run(Arc::new(Nothing), std::future::pending()).await;
        assert!(error.as_ref().is_err_and(|error| error.to_string().contains(", got 9")), "{error:?}");
    });
}

struct Nothing;

impl Handler for Nothing {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), Failure> {
        Ok(())
    }
}

impl Publisher for Nothing {
    async fn publish(&self, _: &Message) -> Result<(), Failure> {
        Ok(())
    }
}
