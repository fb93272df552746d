//! Calls that enqueue, and those that look for what was enqueued: batches, notifications, captured
//! messages.

use crate::queue::claim;
use crate::*;
use std::time::SystemTime;

/// Checks that a batch is like its messages one by one, and that two batches that have the same
/// keys in other orders do not undo each other.
#[test]
fn batches_keep_their_order_and_do_not_wait_in_a_circle() {
    Place::run(async |place| {
        let (mut client, mut first, mut second) = (place.client().await, place.client().await, place.client().await);
        let ids: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
        let headers = [("content-type", "text/plain"), ("traceparent", "00-\"\\-01")];
        let of = |reversed: bool| -> Vec<NewMessage<'_>> {
            let keys = ["a", "b", "c", "d"].map(|key| key.as_bytes());
            let key = |n: usize| keys[if reversed { 3 - n % 4 } else { n % 4 }];
            ids.iter().enumerate().map(|(n, id)| NewMessage::new(id, "p").key(key(n)).headers(&headers)).collect()
        };
        let batches = async |client: &mut Client, messages: &[NewMessage<'_>]| {
            for _ in 0..20 {
                place.enqueue_all(client, "t", messages.iter().copied()).await;
            }
        };
        let (forward, backward) = (of(false), of(true));
        tokio::join!(batches(&mut first, &forward), batches(&mut second, &backward));
        let disorder = "SELECT count(*) FROM (SELECT id, lag(id) OVER (PARTITION BY key ORDER BY position) AS before, \
             row_number() OVER (PARTITION BY key ORDER BY position) AS n FROM {p}_outbox) s WHERE id < before AND n % 10 <> 1";
        assert_eq!(place.count(&client, disorder).await, 0);
        let with_headers = "SELECT count(*) FROM {p}_outbox WHERE headers = ARRAY['content-type', 'text/plain', \
             'traceparent', E'00-\"\\\\-01']";
        assert_eq!(place.count(&client, with_headers).await, 1_600);
        let free: Vec<NewMessage<'_>> = ids.iter().map(|id| NewMessage::new(id, "p")).collect();
        let mut tx = client.transaction().await.unwrap();
        outbox::enqueue_batch(&mut tx, &place.tables, "free", &free).await.unwrap();
        outbox::enqueue_batch(&mut tx, &place.tables, "free", &[]).await.unwrap();
        let many = vec![free[0]; outbox::BATCH_MAX + 1];
        let error = outbox::enqueue_batch(&mut tx, &place.tables, "free", &many).await.unwrap_err();
        assert!(error.to_string().contains("got 1001"), "{error}");
        tx.commit().await.unwrap();
        assert_eq!(claim(&place, &client, "free", 100, 1 << 20).await.len(), 40);
    });
}

/// Checks that nobody is notified while a relay looks by itself.
#[test]
fn whoever_enqueues_notifies_those_who_sleep_only() {
    Place::run(async |place| {
        let (mut client, other) = (place.client().await, place.client().await);
        // The channel on which they listen is in the function that notifies.
        let channel =
            "SELECT substring(prosrc FROM $$pg_notify\\('(hapax_[0-9a-f]+)'$$) FROM pg_proc WHERE proname = $1";
        let channel: String =
            other.query_one(channel, &[&format!("{}_outbox_ring", place.prefix)]).await.unwrap().get(0);
        let (listener, mut connection) = tokio_postgres::connect(&place.server.address(), NoTls).await.unwrap();
        let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if matches!(message, tokio_postgres::AsyncMessage::Notification(_)) {
                    heard.send(()).unwrap();
                }
            }
        });
        listener.batch_execute(&format!("LISTEN {channel}")).await.unwrap();
        let mut told = async |client: &mut Client, name: &str| -> bool {
            place.enqueue(client, name, NewMessage::new("m", "")).await;
            // Notifications come in front of the answer to a later request.
            listener.batch_execute("SELECT 1").await.unwrap();
            hears.try_recv().is_ok()
        };
        assert!(told(&mut client, "t").await);
        place.execute(&other, "SELECT {p}_outbox_awake('t', 60000)").await;
        assert!(!told(&mut client, "t").await && told(&mut client, "u").await);
        place.execute(&other, "SELECT {p}_outbox_awake('', 60000)").await;
        assert!(!told(&mut client, "u").await);
        place.execute(&other, "UPDATE {p}_outbox_bell SET awake_until = clock_timestamp()").await;
        assert!(told(&mut client, "t").await);

        // One transaction notifies at a time: a relay that is woken by the first looks for what the
        // others commit. A transaction that was undone notifies nobody.
        let mut tx = client.transaction().await.unwrap();
        outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("m", "")).await.unwrap();
        let mut second = place.client().await;
        assert!(!told(&mut second, "t").await);
        tx.rollback().await.unwrap();
        assert!(told(&mut second, "t").await);
    });
}

/// Checks that rows for change data capture are inserted with the transaction, and removed when
/// they are old.
#[test]
fn captured_messages_are_rows_until_they_are_old() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let message = NewMessage::new("m", "payload").key("k").headers(&[("a", "b")]);
        let mut tx = client.transaction().await.unwrap();
        outbox::capture(&mut tx, &place.tables, "t", &[message, message]).await.unwrap();
        tx.rollback().await.unwrap();
        let mut tx = client.transaction().await.unwrap();
        outbox::capture(&mut tx, &place.tables, "t", &[message, message]).await.unwrap();
        let timed = message.due_at(SystemTime::now());
        assert!(outbox::capture(&mut tx, &place.tables, "t", &[timed]).await.is_err());
        tx.commit().await.unwrap();
        let rows = "SELECT count(*) FROM {p}_outbox_capture WHERE (name, key, id, payload) = \
             ('t', 'k', 'm', 'payload') AND headers = ARRAY['a', 'b']";
        assert_eq!(place.count(&client, rows).await, 2);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_outbox").await, 0, "no relay has it");
        assert_eq!(outbox::expire_captured(&client, &place.tables, HOUR).await.unwrap(), 0);
        place.execute(&client, "UPDATE {p}_outbox_capture SET recorded_at = '-infinity' WHERE position = 3").await;
        assert_eq!(outbox::expire_captured(&client, &place.tables, HOUR).await.unwrap(), 1);
        assert_eq!(outbox::expire_captured(&client, &place.tables, HOUR).await.unwrap(), 0);
    });
}

/// Uses names in an order that is not the alphabet's, many of them, some with nothing due.
#[test]
fn a_relay_of_all_topics_finds_each_of_them() {
    Place::run(async |place| {
        let client = place.client().await;
        let filled = "INSERT INTO {p}_outbox (name, due_at, id, payload) SELECT CASE WHEN n % 3 = 0 THEN 'Z' ELSE 'a' END \
             || chr(65 + n % 60) || n, CASE WHEN n % 2 = 0 THEN clock_timestamp() ELSE 'infinity' END, int8send(n), '' \
             FROM generate_series(1, 300) n";
        place.execute(&client, filled).await;
        let (mut behind, mut due, mut seen) = (String::new(), 0, 0);
        loop {
            let sql = format!(
                "SELECT name, is_due FROM {}_outbox_names($1, '{{}}', '{{}}', '{{}}', '{{}}', true)",
                place.prefix
            );
            let rows = client.query(&sql, &[&behind]).await.unwrap();
            seen += rows.len();
            due += rows.iter().filter(|row| row.get(1)).count();
            let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            assert!(names.is_sorted() && names.first().is_none_or(|first| *first > behind), "{names:?}");
            match names.len() {
                64 => behind = names[63].clone(),
                _ => break,
            }
        }
        assert_eq!((seen, due), (300, 150));
    });
}
