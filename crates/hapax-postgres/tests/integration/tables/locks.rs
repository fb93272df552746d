//! Advisory locks: whoever chooses keys chooses no locks of anybody else's.

use crate::*;

/// The advisory locks of this process: how many numbers each has, and which.
async fn locks(client: &Client, pid: i32) -> Vec<(i16, i64)> {
    let sql = "SELECT objsubid, classid::bigint << 32 | objid::bigint FROM pg_locks \
         WHERE locktype = 'advisory' AND pid = $1 ORDER BY 1, 2";
    let rows = client.query(sql, &[&pid]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Returns the locks of keys that a transaction takes for one.
async fn locks_of_key(place: &Place, client: &mut Client, watcher: &Client, key: &str) -> Vec<i64> {
    let mut tx = client.transaction().await.unwrap();
    outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("m", "").key(key)).await.unwrap();
    let locks = locks(watcher, pid(&tx).await).await;
    tx.rollback().await.unwrap();
    locks.into_iter().filter(|(numbers, _)| *numbers == 1).map(|(_, lock)| lock).collect()
}

#[test]
fn no_key_can_have_the_lock_of_a_bucket_or_of_the_bell() {
    Place::run(async |place| {
        let (mut client, watcher) = (place.client().await, place.client().await);
        let mut tx = client.transaction().await.unwrap();
        let _ = inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap();
        outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("m", "")).await.unwrap();
        let without_keys = locks(&watcher, pid(&tx).await).await;
        tx.rollback().await.unwrap();
        assert!(without_keys.len() >= 2 && without_keys.iter().all(|(numbers, _)| *numbers == 2), "{without_keys:?}");
        assert_eq!(locks_of_key(&place, &mut client, &watcher, "k").await.len(), 1);
    });
}

#[test]
fn the_lock_of_a_key_cannot_be_foretold() {
    Place::run(async |place| {
        let (mut client, watcher) = (place.client().await, place.client().await);
        let first = locks_of_key(&place, &mut client, &watcher, "k").await;
        assert_eq!(locks_of_key(&place, &mut client, &watcher, "k").await, first, "it stays the same");
        place.execute(&client, &place.tables.migrations()).await;
        assert_eq!(locks_of_key(&place, &mut client, &watcher, "k").await, first, "it stays the same");
        assert_ne!(locks_of_key(&place, &mut client, &watcher, "l").await, first);
        // The same tables in another database have others.
        place.execute(&client, "CREATE DATABASE {p}_other").await;
        let address = place.server.address().replace("dbname=postgres", &format!("dbname={}_other", place.prefix));
        let (mut other, watcher) = (crate::client(&address).await, crate::client(&address).await);
        place.tables.migrate(&other).await.unwrap();
        assert_ne!(locks_of_key(&place, &mut other, &watcher, "k").await, first);
    });
}

/// Checks that a transaction forgets what was marked in a partition of which its session has not
/// heard: it has locked the marks before that was made.
#[test]
fn a_transaction_that_has_forgotten_forgets_in_a_partition_that_began_since() {
    Place::run(async |place| {
        let (mut client, mut other) = (place.client().await, place.client().await);
        let mark = async |other: &mut Client, id: &str| {
            assert!(place.once(other, "c", id).await.is_first(), "{id}");
        };
        mark(&mut other, "a").await;
        for round in 0..3 {
            let mut tx = client.transaction().await.unwrap();
            assert_eq!(inbox::forget(&mut tx, &place.tables, "c", &["a"]).await.unwrap(), 1);
            place.execute(&other, "UPDATE {p}_mark_buckets SET opened_at = '-infinity'").await;
            let retention = Retention::new(60 * HOUR, HOUR).unwrap();
            let cleanup = retention.expire(&other, &place.tables).await.unwrap();
            assert!(cleanup.begun == 1 && cleanup.put_off, "{cleanup:?}");
            let id = format!("b{round}");
            mark(&mut other, &id).await;
            assert_eq!(inbox::forget(&mut tx, &place.tables, "c", &["a", &id]).await.unwrap(), 1, "{id}");
            tx.commit().await.unwrap();
            mark(&mut other, "a").await;
            mark(&mut other, &id).await;
        }
    });
}
