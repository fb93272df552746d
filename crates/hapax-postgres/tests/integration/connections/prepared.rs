//! Transactions that a coordinator prepares, and commits later: PREPARE TRANSACTION.

use crate::*;
use hapax_store::ErrorKind;

fn run<F: Future<Output = ()>>(test: impl FnOnce(Place) -> F) {
    let settings = ["fsync=off", "full_page_writes=off", "max_prepared_transactions=4"];
    if let Some(server) = Server::start(&settings) {
        Place::run_at(Arc::new(server), test);
    }
}

#[test]
fn marks_of_a_prepared_transaction_are_waited_for_until_it_ends() {
    run(async |place| {
        let (mut client, mut other, cleaner) = (place.client().await, place.client().await, place.client().await);
        for commits in [false, true] {
            let mut tx = client.transaction().await.unwrap();
            assert!(inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap().is_first());
            tx.batch_execute("PREPARE TRANSACTION 'a'").await.unwrap();
            drop(tx); // it is no transaction of this session any more

            let mut late = other.transaction().await.unwrap();
            late.batch_execute("SET LOCAL lock_timeout = '20ms'").await.unwrap();
            let error = inbox::once(&mut late, &place.tables, "c", "m").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            late.rollback().await.unwrap();
            // Others mark, and partitions are put off.
            let mut tx = other.transaction().await.unwrap();
            assert!(inbox::once(&mut tx, &place.tables, "c", format!("n{commits}")).await.unwrap().is_first());
            tx.commit().await.unwrap();
            let due = "UPDATE {p}_mark_buckets SET opened_at = opened_at - interval '2 hours'";
            place.execute(&cleaner, due).await;
            let retention = Retention::new(10 * HOUR, HOUR).unwrap();
            assert!(retention.expire(&cleaner, &place.tables).await.unwrap().put_off);

            other.batch_execute(if commits { "COMMIT PREPARED 'a'" } else { "ROLLBACK PREPARED 'a'" }).await.unwrap();
            let mut tx = other.transaction().await.unwrap();
            assert_eq!(inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap().is_first(), !commits);
            tx.rollback().await.unwrap();
            assert!(!retention.expire(&cleaner, &place.tables).await.unwrap().put_off);
        }
    });
}

#[test]
fn who_has_notified_cannot_prepare() {
    run(async |place| {
        let mut client = place.client().await;
        for is_awake in [false, true] {
            if is_awake {
                let awake = "INSERT INTO {p}_outbox_bell VALUES ('', clock_timestamp() + interval '1 hour') \
                     ON CONFLICT (name) DO UPDATE SET awake_until = excluded.awake_until";
                place.execute(&client, awake).await;
            }
            let mut tx = client.transaction().await.unwrap();
            outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("m", "")).await.unwrap();
            let prepared = tx.batch_execute("PREPARE TRANSACTION 'b'").await;
            drop(tx);
            if is_awake {
                prepared.unwrap()
            } else {
                let error = prepared.unwrap_err();
                let answer = error.as_db_error().unwrap();
                assert!(answer.message().contains("NOTIFY"), "{answer:?}");
            }
        }
        client.batch_execute("COMMIT PREPARED 'b'").await.unwrap();
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_outbox").await, 1);
    });
}
