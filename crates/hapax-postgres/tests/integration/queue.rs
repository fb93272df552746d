//! Promises of the server's functions by themselves: claims that cost only what they return, places
//! of messages, keys that come and go while others enqueue.

use crate::*;
use std::time::SystemTime;
use tokio_postgres::Transaction;

/// Claims messages. Returns their positions and keys.
pub(crate) async fn claim(
    place: &Place,
    client: &Client,
    name: &str,
    first: i64,
    bytes: i64,
) -> Vec<(i64, Option<Vec<u8>>)> {
    let sql = format!(
        "SELECT position, key FROM {}_outbox_take(ARRAY[$1::text], ARRAY[0::bigint], ARRAY[0::bigint], '{{}}', '{{}}', false, $2, 15, $3, 3e7, 77) \
         WHERE position IS NOT NULL",
        place.prefix
    );
    let rows = client.query(&sql, &[&name, &first, &bytes]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Settles messages as done and gives their keys back.
async fn done(place: &Place, client: &Client, name: &str, claimed: &[(i64, Option<Vec<u8>>)]) {
    let positions: Vec<i64> = claimed.iter().map(|(position, _)| *position).collect();
    let keys: Vec<Vec<u8>> = claimed.iter().filter_map(|(_, key)| key.clone()).collect();
    let sql = format!(
        "SELECT * FROM {}_outbox_settle($1, array_fill(77::bigint, ARRAY[cardinality($1::bigint[])]), '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', \
         array_fill($2::text, ARRAY[cardinality($3::bytea[])]), $3, array_fill(77::bigint, ARRAY[cardinality($3)]), \
         array_fill(0::float8, ARRAY[cardinality($3)]), '{{}}', 0)",
        place.prefix
    );
    assert!(client.query(&sql, &[&positions, &name, &keys]).await.unwrap().is_empty(), "nobody else is at work");
}

/// Returns what one plan's statement counted, by the names of `EXPLAIN`.
pub(crate) async fn counted(client: &Client, counts: &str, sql: &str) -> impl Fn(&str) -> i64 + use<> {
    let rows = client.simple_query(&format!("EXPLAIN (ANALYZE, {counts}, FORMAT JSON) {sql}")).await.unwrap();
    let plan = rows.iter().find_map(|row| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    let plan = plan.expect("a plan");
    move |what| {
        let behind = plan.split(&format!("\"{what}\": ")).nth(1).expect("it was counted");
        behind.split([',', '\n']).next().unwrap().trim().parse().unwrap()
    }
}

/// Returns the pages of tables and indexes that a claim looked at.
async fn pages(place: &Place, client: &Client, name: &str, first: i64) -> i64 {
    let sql = format!(
        "SELECT * FROM {}_outbox_take(ARRAY['{name}'], ARRAY[0::bigint], ARRAY[0::bigint], '{{}}', '{{}}', true, \
         {first}, 15, 16777216, 3e7, 77)",
        place.prefix
    );
    let of = counted(client, "BUFFERS", &sql).await;
    of("Shared Hit Blocks") + of("Shared Read Blocks")
}

/// Checks that what was done is removed by one record of the log a message, though its claim, or
/// the beginning of its attempt, had locked its row.
#[test]
fn what_is_done_is_removed_without_being_locked_again() {
    Place::run(async |place| {
        let client = place.client().await;
        let filled = "INSERT INTO {p}_outbox (name, key, id, payload) \
             SELECT 'keyed', int8send(n), int8send(n), 'payload' FROM generate_series(1, 1000) n; \
             INSERT INTO {p}_outbox_keys (name, key) SELECT 'keyed', int8send(n) FROM generate_series(1, 1000) n; \
             INSERT INTO {p}_outbox (name, due_at, id, payload) \
             SELECT name, clock_timestamp(), int8send(n), 'payload' FROM generate_series(1, 1000) n, \
                unnest(ARRAY['free', 'begun']) name";
        place.execute(&client, filled).await;
        for name in ["keyed", "free", "begun"] {
            let positions: Vec<String> = claim(&place, &client, name, 1_000, 1 << 24)
                .await
                .iter()
                .map(|(position, _)| position.to_string())
                .collect();
            assert_eq!(positions.len(), 1_000);
            let positions = positions.join(",");
            if name == "begun" {
                let begun = "SELECT {p}_outbox_begin('begun', array_fill(NULL::bytea, ARRAY[1000]), array_fill(77::bigint, ARRAY[1000]), \
                     array_agg(m.position), 3e7, 3e7) FROM {p}_outbox m WHERE name = 'begun'";
                place.execute(&client, begun).await;
            }
            let sql = format!(
                "SELECT * FROM {}_outbox_settle('{{{positions}}}', array_fill(77::bigint, ARRAY[1000]), \
                 '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{keyed}}', ARRAY[int8send(1)], '{{77}}', '{{0}}', '{{}}', 0)",
                place.prefix
            );
            // One of a claim's keys is enough for all messages that it has found.
            let records = counted(&client, "WAL", &sql).await("WAL Records");
            assert!((1_000..1_100).contains(&records), "{name}: {records} records");
        }
    });
}

/// Checks that a claim writes down which messages it has, and none of these; that they are nobody
/// else's then; and that those that a lost claim has left are due anew, and known to be.
#[test]
fn a_claim_of_messages_without_a_key_writes_none_of_them() {
    Place::run(async |place| {
        let client = place.client().await;
        let filled = "INSERT INTO {p}_outbox (name, due_at, id, payload) \
             SELECT 'free', clock_timestamp(), int8send(n), 'payload' FROM generate_series(1, 1000) n";
        place.execute(&client, filled).await;
        let take = "SELECT * FROM {p}_outbox_take('{free}', '{0}', '{0}', '{}', '{}', false, 900, 0, 1000000, 3e7, 78)";
        let records = counted(&client, "WAL", &take.replace("{p}", &place.prefix)).await("WAL Records");
        assert!(records < 100, "{records} records for 900 messages");
        let rest = claim(&place, &client, "free", 1_000, 1 << 24).await;
        assert_eq!((rest.len(), claim(&place, &client, "free", 1_000, 1 << 24).await.len()), (100, 0));
        done(&place, &client, "free", &rest).await;
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_outbox").await, 900);
        // One of them is locked, and waited for by nobody.
        let operator = place.client().await;
        place.execute(&operator, "BEGIN; SELECT FROM {p}_outbox WHERE position = 7 FOR UPDATE").await;
        place.execute(&client, "UPDATE {p}_outbox_claims SET until = clock_timestamp()").await;
        let again = claim(&place, &client, "free", 1_000, 1 << 24).await;
        assert_eq!((again.len(), again.iter().any(|(position, _)| *position == 7)), (899, false));
        let lost = "SELECT count(*) FROM {p}_outbox WHERE token = 78";
        assert_eq!(place.count(&client, lost).await, 899, "whoever had them may have died of them");
        // Another claim has them now: the lost one gives none of them up, nor puts it off.
        let late = "SELECT * FROM {p}_outbox_settle('{}', '{}', '{20,21}', '{78,78}', '{1,1}', '{NULL,NULL}', '{1,0}', \
             '{0,3e7}', '{}', '{}', '{}', '{}', '{}', 3e7)";
        place.execute(&client, late).await;
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_outbox WHERE token = 78").await, 899);
        operator.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(claim(&place, &client, "free", 1_000, 1 << 24).await.len(), 1);
        // What is given back is taken out of its claim, which ends with the rest.
        let settle = "SELECT * FROM {p}_outbox_settle('{8}', '{77}', '{9}', '{77}', '{0}', '{NULL}', '{0}', '{0}', \
             '{}', '{}', '{}', '{}', '{OVER}', 3e7)";
        place.execute(&client, &settle.replace("OVER", "")).await;
        let back = claim(&place, &client, "free", 1_000, 1 << 24).await;
        assert_eq!(back, [(9, None)]);
        place.execute(&client, &settle.replace("OVER", "77")).await;
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_outbox_claims").await, 0);
    });
}

/// Checks that an attempt that begins soon after its claim writes its row once and moves nothing in
/// an index, and that a later one has the whole lease.
#[test]
fn a_lease_is_renewed_once_it_has_begun_to_run_out() {
    Place::run(async |place| {
        let client = place.client().await;
        let filled = "INSERT INTO {p}_outbox (name, key, id, payload) VALUES ('keyed', 'k', 'k', 'payload'); \
             INSERT INTO {p}_outbox_keys (name, key) VALUES ('keyed', 'k'); \
             INSERT INTO {p}_outbox (name, due_at, id, payload) VALUES ('free', clock_timestamp(), 'f', 'payload')";
        place.execute(&client, filled).await;
        for (name, key, leases, until) in
            [("keyed", "'k'", "outbox_keys", "due_at"), ("free", "NULL", "outbox_claims", "until")]
        {
            let position = claim(&place, &client, name, 1, 1 << 24).await[0].0;
            let due = format!(
                "SELECT extract(epoch FROM {until})::float8 FROM {}_{leases} WHERE name = '{name}'",
                place.prefix
            );
            let due = async || client.query_one(&due, &[]).await.unwrap().get::<_, f64>(0);
            // The claim's lease has 30 s.
            for (enough, is_renewed) in [(29e6, false), (31e6, true)] {
                let before = due().await;
                let sql = format!(
                    "SELECT {}_outbox_begin('{name}', ARRAY[{key}]::bytea[], '{{77}}', '{{{position}}}', 4e7, {enough}::float8)",
                    place.prefix
                );
                let records = counted(&client, "WAL", &sql).await("WAL Records");
                let by = due().await - before;
                assert_eq!(by >= 9.0, is_renewed, "{name}, {enough}: renewed by {by} s");
                assert!(is_renewed || by == 0.0, "{name}: renewed by {by} s");
                // A key's row is locked, its message's is locked and written.
                assert!(is_renewed || records <= 3, "{name}: {records} records");
            }
            // A claim of a time when the clock was ahead.
            let ahead = format!(
                "UPDATE {{p}}_{leases} SET {until} = clock_timestamp() + interval '1 hour' WHERE name = '{name}'"
            );
            place.execute(&client, &ahead).await;
            let before = due().await;
            let sql = format!(
                "SELECT {{p}}_outbox_begin('{name}', ARRAY[{key}]::bytea[], '{{77}}', '{{{position}}}', 4e7, 29e6)"
            );
            place.execute(&client, &sql).await;
            assert!(due().await < before - 3_000.0, "{name}: its lease is a whole one, not an hour");
        }
    });
}

/// Checks the cost of a claim, whatever is in front of the due messages: keys that are put off or
/// in flight, and millions of another name.
#[test]
fn a_claim_costs_what_it_returns() {
    Place::run(async |place| {
        let client = place.client().await;
        let filled = "INSERT INTO {p}_outbox (name, key, id, payload) \
             SELECT 't', int8send(n), int8send(n), 'payload' FROM generate_series(1, 40000) n; \
             INSERT INTO {p}_outbox_keys (name, key) SELECT 't', int8send(n) FROM generate_series(1, 40000) n; \
             INSERT INTO {p}_outbox (name, due_at, id, payload) \
             SELECT 'free', clock_timestamp(), int8send(n), 'payload' FROM generate_series(1, 40000) n; \
             INSERT INTO {p}_outbox (name, due_at, id, payload) VALUES ('rare', clock_timestamp(), 'r', 'payload')";
        place.execute(&client, filled).await;
        // The oldest can't be taken for an hour: those in front by far.
        let put_off = "UPDATE {p}_outbox_keys SET due_at = clock_timestamp() + interval '1 hour' \
             WHERE key < int8send(20000); \
             UPDATE {p}_outbox SET due_at = clock_timestamp() + interval '1 hour' \
             WHERE name = 'free' AND id < int8send(20000)";
        place.execute(&client, put_off).await;
        for analyzed in [false, true] {
            if analyzed {
                place.execute(&client, "VACUUM ANALYZE {p}_outbox").await;
                place.execute(&client, "VACUUM ANALYZE {p}_outbox_keys").await;
            }
            for (name, first, returned) in
                [("t", 32, 32), ("t", 1_000, 1_000), ("free", 32, 32), ("free", 1_000, 1_000)]
            {
                let looked_at = pages(&place, &client, name, first).await;
                // Walking past those that are put off would cost 20,000 more.
                assert!(looked_at < 20 * returned + 2_000, "{name}, {first}: {looked_at} pages, analyzed: {analyzed}");
            }
            let looked_at = pages(&place, &client, "rare", 32).await;
            assert!(looked_at < 2_000, "rare: {looked_at} pages");
        }
        assert_eq!(claim(&place, &client, "t", 1_000, 1 << 24).await.len(), 1_000, "there is more");
    });
}

#[test]
fn a_claim_keeps_to_its_bytes_and_takes_one_message_however_large() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let (large, small) = (vec![7; 1 << 20], vec![7; 100]);
        for (id, key) in [("a1", Some("a")), ("a2", Some("a")), ("b1", Some("b")), ("f1", None), ("f2", None)] {
            let message = NewMessage::new(id, &large);
            place.enqueue(&mut client, "t", key.map_or(message, |key| message.key(key))).await;
        }
        place.enqueue(&mut client, "t", NewMessage::new("a3", &small).key("a")).await;
        let two = claim(&place, &client, "t", 10, 2 << 20).await;
        assert_eq!(two.len(), 2, "the firsts of two keys: {two:?}");
        assert_eq!(two[0].1.as_deref(), Some(&b"a"[..]));
        let one = claim(&place, &client, "t", 10, 100).await;
        assert_eq!((one.len(), &one[0].1), (1, &None));
        done(&place, &client, "t", &two).await;
        let behind = claim(&place, &client, "t", 10, (1 << 20) + 100).await;
        assert_eq!(behind.len(), 1, "a2 is first, and then there is no room for f2: {behind:?}");
    });
}

/// Enqueues for a key whose last message is published meanwhile: the key stays, and the message is
/// found. At each isolation level, one by one and as a batch, and whether the row of the key was
/// seen or is newer than the transaction.
#[test]
fn a_key_that_somebody_enqueues_for_is_not_removed() {
    Place::run(async |place| {
        let (mut client, other) = (place.client().await, place.client().await);
        let levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
        for (level, is_batch) in levels.into_iter().flat_map(|level| [(level, false), (level, true)]) {
            let enqueue = async |tx: &mut Transaction<'_>, id: &str| {
                let message = NewMessage::new(id, "").key("k");
                let enqueued = if is_batch {
                    outbox::enqueue_batch(tx, &place.tables, "t", &[message]).await.map(|_| ())
                } else {
                    outbox::enqueue(tx, &place.tables, "t", message).await.map(|_| ())
                };
                enqueued.unwrap();
            };
            place.enqueue(&mut client, "t", NewMessage::new("first", "").key("k")).await;
            let claimed = claim(&place, &other, "t", 10, 1 << 20).await;
            assert_eq!(claimed.len(), 1);
            let mut tx = client.transaction().await.unwrap();
            tx.batch_execute(&format!("SET TRANSACTION ISOLATION LEVEL {level}; SELECT 1 FROM pg_class"))
                .await
                .unwrap();
            enqueue(&mut tx, "second").await;
            done(&place, &other, "t", &claimed).await;
            assert_eq!(place.count(&other, "SELECT count(*) FROM {p}_outbox_keys").await, 1, "{level}");
            tx.commit().await.unwrap();
            place.execute(&other, "UPDATE {p}_outbox_keys SET due_at = '-infinity'").await;
            let claimed = claim(&place, &other, "t", 10, 1 << 20).await;
            assert_eq!(claimed.len(), 1, "{level}");
            done(&place, &other, "t", &claimed).await;
            assert_eq!(place.count(&other, "SELECT count(*) FROM {p}_outbox_keys").await, 0, "{level}");

            // A transaction that does not see the row that another one has made since.
            let mut tx = client.transaction().await.unwrap();
            tx.batch_execute(&format!("SET TRANSACTION ISOLATION LEVEL {level}; SELECT 1 FROM pg_class"))
                .await
                .unwrap();
            let mut third = place.client().await;
            place.enqueue(&mut third, "t", NewMessage::new("third", "").key("k")).await;
            enqueue(&mut tx, "fourth").await;
            tx.commit().await.unwrap();
            let claimed = claim(&place, &other, "t", 10, 1 << 20).await;
            assert_eq!(claimed.len(), 2, "{level}");
            done(&place, &other, "t", &claimed[..1]).await;
            done(&place, &other, "t", &claim(&place, &other, "t", 10, 1 << 20).await).await;
            assert_eq!(place.count(&other, "SELECT count(*) FROM {p}_outbox").await, 0, "{level}");
        }
    });
}

/// Checks that a dead letter that is requeued takes its place after transactions that enqueue: it
/// waits for them.
#[test]
fn requeued_letters_wait_for_their_keys_lock() {
    Place::run(async |place| {
        let (mut client, other) = (place.client().await, place.client().await);
        place.enqueue(&mut client, "t", NewMessage::new("dead", "").key("k")).await;
        place.execute(&other, "UPDATE {p}_outbox SET dead_at = clock_timestamp(), error = 'no'").await;
        let letters = outbox::dead_letters(&other, &place.tables, Some("t"), 0, 9).await.unwrap();
        let mut tx = client.transaction().await.unwrap();
        let holder = pid(&tx).await;
        outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("new", "").key("k")).await.unwrap();
        let requeued = async { outbox::requeue(&other, &place.tables, Letters::These(&letters[..1])).await };
        let watcher = place.client().await;
        let ends = async {
            until_somebody_waits(&watcher, holder).await;
            tx.commit().await.unwrap();
        };
        let (requeued, ()) = tokio::join!(requeued, ends);
        assert_eq!(requeued.unwrap(), 1);
        let ids = "SELECT string_agg(convert_from(id, 'UTF8'), ' ' ORDER BY position) = 'new dead' FROM {p}_outbox";
        assert!(watcher.query_one(&ids.replace("{p}", &place.prefix), &[]).await.unwrap().get::<_, bool>(0));
        assert_eq!(claim(&place, &watcher, "t", 10, 1 << 20).await.len(), 2, "one run of both");
    });
}

#[test]
fn letters_are_requeued_and_discarded_in_bulk_and_by_age() {
    Place::run(async |place| {
        let client = place.client().await;
        let dead = "INSERT INTO {p}_outbox (name, key, id, payload, dead_at, error) \
             SELECT CASE WHEN n % 2 = 0 THEN 'even' ELSE 'odd' END, CASE WHEN n % 4 = 0 THEN 'k'::bytea END, int8send(n), \
             '', clock_timestamp() - interval '10 days', 'no' FROM generate_series(1, 2400) n";
        place.execute(&client, dead).await;
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let tables = &place.tables;
        assert_eq!(outbox::discard(&client, tables, Letters::OlderThan(None, days(11))).await.unwrap(), 0);
        assert_eq!(outbox::discard(&client, tables, Letters::OlderThan(Some("odd"), days(9))).await.unwrap(), 1_000);
        assert_eq!(outbox::discard(&client, tables, Letters::OlderThan(Some("odd"), days(9))).await.unwrap(), 200);
        assert_eq!(outbox::requeue(&client, tables, Letters::Of(Some("even"))).await.unwrap(), 1_000);
        assert_eq!(outbox::requeue(&client, tables, Letters::Of(None)).await.unwrap(), 200);
        assert_eq!(outbox::requeue(&client, tables, Letters::Of(None)).await.unwrap(), 0);
        let backlog = outbox::backlog(&client, tables, Some("even")).await.unwrap();
        assert_eq!((backlog.waiting, backlog.due, backlog.dead), (1_200, 601, 0), "600 without a key, and one key");
        assert!(backlog.oldest < HOUR && backlog.due_for < HOUR, "{backlog:?}");
        assert_eq!(outbox::backlog(&client, tables, Some("odd")).await.unwrap(), Backlog::default());
        assert!(outbox::requeue(&client, tables, Letters::Of(Some("a\nb"))).await.is_err());
    });
}

/// Checks that a message with a time takes its place when that comes; others of its key do not wait
/// for it.
#[test]
fn scheduled_messages_take_their_places_when_they_are_due() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let later = SystemTime::now() + HOUR;
        place.enqueue(&mut client, "t", NewMessage::new("late", "").key("k").due_at(later)).await;
        place.enqueue(&mut client, "t", NewMessage::new("free late", "").due_at(later)).await;
        place.enqueue(&mut client, "t", NewMessage::new("k1", "").key("k")).await;
        let past = SystemTime::now() - HOUR;
        place.enqueue(&mut client, "t", NewMessage::new("was due", "").due_at(past).expires_at(past)).await;
        let claimed = claim(&place, &client, "t", 10, 1 << 20).await;
        assert_eq!(claimed.len(), 2, "k1, and what was due");
        let expired = "SELECT count(*) FROM {p}_outbox WHERE expires_at < clock_timestamp()";
        assert_eq!(place.count(&client, expired).await, 1);
        done(&place, &client, "t", &claimed).await;
        place.enqueue(&mut client, "t", NewMessage::new("k2", "").key("k")).await;
        place.execute(&client, "UPDATE {p}_outbox SET due_at = clock_timestamp() WHERE due_at IS NOT NULL").await;

        // Another transaction enqueues for its key: it does not wait for that one.
        let mut other = place.client().await;
        let mut tx = other.transaction().await.unwrap();
        outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("k3", "").key("k")).await.unwrap();
        let claimed = claim(&place, &client, "t", 10, 1 << 20).await;
        assert_eq!(claimed.len(), 2, "k2, and the one without a key");
        done(&place, &client, "t", &claimed).await;
        tx.commit().await.unwrap();
        place.execute(&client, "UPDATE {p}_outbox SET due_at = clock_timestamp() WHERE due_at IS NOT NULL").await;
        place.execute(&client, "UPDATE {p}_outbox_keys SET due_at = '-infinity'").await;
        let claimed = claim(&place, &client, "t", 10, 1 << 20).await;
        let ids = "SELECT string_agg(convert_from(id, 'UTF8'), ' ' ORDER BY position) = 'k3 late' FROM {p}_outbox";
        assert!(client.query_one(&ids.replace("{p}", &place.prefix), &[]).await.unwrap().get::<_, bool>(0));
        assert_eq!(claimed.len(), 2, "behind k3");
    });
}
