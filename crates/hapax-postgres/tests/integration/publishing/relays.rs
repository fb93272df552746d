//! Messages that are enqueued, and relays that publish them.

use crate::*;
use std::collections::HashSet;
use std::sync::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A broker that remembers what was published, and checks that nothing is in flight twice.
#[derive(Default)]
struct Broker {
    /// The messages that fail.
    failing: Vec<&'static str>,
    takes: Duration,
    published: Mutex<Vec<String>>,
    in_flight: Mutex<HashSet<Vec<u8>>>,
    wrong: Mutex<Vec<String>>,
}

impl Broker {
    fn published(&self) -> Vec<String> {
        self.published.lock().unwrap().clone()
    }
}

impl Publisher for Broker {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        // A key is in flight as a whole: no two of its messages concurrently.
        let what = message.key.clone().unwrap_or_else(|| message.id.clone());
        let id = String::from_utf8(message.id.clone()).unwrap();
        if !self.in_flight.lock().unwrap().insert(what.clone()) {
            self.wrong.lock().unwrap().push(format!("{id} was in flight beside another one"));
        }
        tokio::time::sleep(self.takes).await;
        self.in_flight.lock().unwrap().remove(&what);
        if self.failing.contains(&id.as_str()) {
            return Err("refused".into());
        }
        self.published.lock().unwrap().push(id);
        Ok(())
    }
}

/// Starts a relay, which works until it is told to stop.
pub(crate) fn start(relay: Relay, broker: &Arc<impl Publisher>) -> (watch::Sender<bool>, JoinHandle<()>) {
    let ((stop, mut stopped), broker) = (watch::channel(false), Arc::clone(broker));
    let stopped = async move { drop(stopped.wait_for(|stop| *stop).await) };
    (stop, tokio::spawn(async move { relay.run(broker, stopped).await.unwrap() }))
}

pub(crate) async fn until_empty(place: &Place, client: &Client) {
    let left = "SELECT count(*) FROM {p}_outbox WHERE dead_at IS NULL";
    until("all are published", async || place.count(client, left).await == 0).await;
}

/// Commits the transaction that enqueued first last: the second one of that key waits for it, and
/// no other does.
#[test]
fn a_key_is_published_in_the_order_of_commits_and_nothing_before() {
    Place::run(async |place| {
        let (mut first, mut second, mut client) = (place.client().await, place.client().await, place.client().await);
        let broker = Arc::new(Broker::default());
        let (stop, relay) = start(place.relay(), &broker);

        let mut tx = first.transaction().await.unwrap();
        let holder = pid(&tx).await;
        outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("k1", "").key("k")).await.unwrap();
        // Enqueued later and committed sooner: another key, another topic, and none.
        place.enqueue(&mut client, "t", NewMessage::new("l1", "").key("l")).await;
        place.enqueue(&mut client, "u", NewMessage::new("u1", "").key("k")).await;
        place.enqueue(&mut client, "t", NewMessage::new("free", "")).await;
        until("others are published", async || broker.published().len() == 3).await;

        let waits = async { place.enqueue(&mut second, "t", NewMessage::new("k2", "").key("k")).await };
        let ends = async {
            until_somebody_waits(&client, holder).await;
            outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("k3", "").key("k")).await.unwrap();
            assert!(!broker.published().iter().any(|id| id.starts_with('k')), "nothing is committed");
            tx.commit().await.unwrap();
        };
        tokio::join!(waits, ends);
        // A message that is rolled back is never published.
        let mut tx = first.transaction().await.unwrap();
        outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("undone", "").key("k")).await.unwrap();
        tx.rollback().await.unwrap();
        until_empty(&place, &client).await;
        stop.send(true).unwrap();
        relay.await.unwrap();
        let of_k: Vec<_> = broker.published().into_iter().filter(|id| id.starts_with('k')).collect();
        assert_eq!(of_k, ["k1", "k3", "k2"]);
        assert!(!broker.published().contains(&"undone".into()));
    });
}

#[test]
fn a_message_that_fails_holds_up_its_key_alone_until_it_is_a_dead_letter() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for (id, key) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")] {
            place.enqueue(&mut client, "t", NewMessage::new(id, "").key(key)).await;
        }
        let broker = Arc::new(Broker { failing: vec!["a2"], ..Broker::default() });
        // Without a limit it is tried forever.
        let (stop, relay) = start(place.relay(), &broker);
        let tried = "SELECT coalesce(max(attempts), 0)::bigint FROM {p}_outbox";
        until("it was tried often", async || place.count(&client, tried).await > 5).await;
        stop.send(true).unwrap();
        relay.await.unwrap();
        let mut published = broker.published();
        published.sort();
        assert_eq!(published, ["a1", "b1", "b2"]);
        assert_eq!(outbox::dead_letters(&client, &place.tables, None, 0, 9).await.unwrap(), []);

        let (stop, relay) = start(place.relay().retry(soon(Some(1))), &broker);
        until_empty(&place, &client).await;
        let letters = outbox::dead_letters(&client, &place.tables, Some("t"), 0, 9).await.unwrap();
        assert!(letters.len() == 1 && letters[0].message.id == b"a2" && letters[0].error == "refused", "{letters:?}");
        assert_eq!(broker.published().last().unwrap(), "a3");
        place.enqueue(&mut client, "t", NewMessage::new("a4", "").key("a")).await;
        until_empty(&place, &client).await;
        stop.send(true).unwrap();
        relay.await.unwrap();

        // The operator requeues it, behind messages that were published meanwhile.
        assert_eq!(outbox::requeue(&client, &place.tables, Letters::These(&letters[..1])).await.unwrap(), 1);
        let repaired = Arc::new(Broker::default());
        place.publish_all(&client, place.relay(), &repaired).await;
        assert_eq!((repaired.published(), broker.published().last().unwrap().as_str()), (vec!["a2".to_string()], "a4"));
    });
}

#[test]
fn a_relay_is_woken_by_a_commit_and_polls_for_what_it_was_not_told_of() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let broker = Arc::new(Broker::default());
        let (stop, relay) = start(place.relay().poll(HOUR).unwrap(), &broker);
        let listens = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'LISTEN %'";
        until("it listens", async || place.count(&client, listens).await > 0).await;
        tokio::time::sleep(ms(300)).await;
        place.enqueue(&mut client, "t", NewMessage::new("told", "")).await;
        until("it is published", async || broker.published() == ["told"]).await;
        // It looks by itself for two seconds, and needs no notification; then it sleeps, and is
        // notified again.
        place.enqueue(&mut client, "t", NewMessage::new("found", "")).await;
        until("it is published", async || broker.published() == ["told", "found"]).await;
        tokio::time::sleep(ms(2_600)).await;
        place.enqueue(&mut client, "t", NewMessage::new("told again", "")).await;
        until("it is published", async || broker.published() == ["told", "found", "told again"]).await;
        stop.send(true).unwrap();
        relay.await.unwrap();

        let (stop, relay) = start(place.relay().topic("t").unwrap(), &broker);
        place
            .execute(
                &client,
                "INSERT INTO {p}_outbox (name, due_at, id, payload) \
                 VALUES ('u', now(), 'not mine', ''), ('t', now(), 'silent', '')",
            )
            .await;
        until("it is published", async || broker.published().last().unwrap() == "silent").await;
        stop.send(true).unwrap();
        relay.await.unwrap();
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_outbox").await, 1);
    });
}

/// Checks that messages in flight when it is told to stop are waited for, and settled.
#[test]
fn a_relay_that_stops_ends_what_it_has_begun() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let broker = Arc::new(Broker { takes: ms(50), ..Broker::default() });
        for n in 0..3 {
            place.enqueue(&mut client, "t", NewMessage::new(&format!("{n}"), "")).await;
        }
        let (stop, relay) = start(place.relay(), &broker);
        until("all are in flight", async || broker.in_flight.lock().unwrap().len() == 3).await;
        stop.send(true).unwrap();
        relay.await.unwrap();
        assert_eq!(broker.published().len(), 3);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_outbox").await, 0);
    });
}

/// Checks that others go on, however many messages of a key wait behind one that fails: more than a
/// claim looks at first.
#[test]
fn others_go_on_behind_a_long_queue() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let ids: Vec<String> = (1..=600).map(|n| format!("b{n}")).collect();
        place.enqueue_all(&mut client, "t", ids.iter().map(|id| NewMessage::new(id, "").key("blocked"))).await;
        for (id, key) in [("a1", Some("a")), ("free", None), ("a2", Some("a")), ("c1", Some("c"))] {
            let message = NewMessage::new(id, "");
            place.enqueue(&mut client, "t", key.map_or(message, |key| message.key(key))).await;
        }
        place.enqueue(&mut client, "u", NewMessage::new("u1", "").key("a")).await;
        let broker = Arc::new(Broker { failing: vec!["b1"], ..Broker::default() });
        let (stop, relay) = start(place.relay().retry(Retry::new(HOUR, HOUR).unwrap()), &broker);
        until("others are published", async || broker.published().len() == 5).await;
        stop.send(true).unwrap();
        relay.await.unwrap();
        let published = broker.published();
        assert!(
            published.iter().position(|id| id == "a1") < published.iter().position(|id| id == "a2"),
            "{published:?}"
        );
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_outbox").await, 600);

        place.execute(&client, "UPDATE {p}_outbox_keys SET due_at = now()").await;
        let repaired = Arc::new(Broker::default());
        let relays: Vec<_> = (0..2).map(|_| start(place.relay().batch(1).unwrap(), &repaired)).collect();
        until_empty(&place, &client).await;
        for (stop, relay) in relays {
            stop.send(true).unwrap();
            relay.await.unwrap();
        }
        assert_eq!(repaired.published(), (1..=600).map(|n| format!("b{n}")).collect::<Vec<_>>());
        assert_eq!(*repaired.wrong.lock().unwrap(), Vec::<String>::new());
    });
}

/// Checks that a late relay does not settle messages that another one has claimed since.
#[test]
fn whoever_has_lost_a_claim_leaves_it_alone() {
    Place::run(async |place| {
        let mut client = place.client().await;
        place.enqueue(&mut client, "t", NewMessage::new("m", "").key("k")).await;
        let broker = Arc::new(Broker { takes: ms(100), failing: vec!["m"], ..Broker::default() });
        let (stop, relay) = start(place.relay(), &broker);
        until("it is in flight", async || !broker.in_flight.lock().unwrap().is_empty()).await;
        place.execute(&client, "UPDATE {p}_outbox_keys SET token = token + 1, due_at = 'infinity'").await;
        stop.send(true).unwrap();
        relay.await.unwrap();
        let theirs = "SELECT count(*) FROM {p}_outbox_keys k JOIN {p}_outbox m USING (key) \
             WHERE k.due_at = 'infinity' AND m.attempts = 0";
        assert_eq!(place.count(&client, theirs).await, 1);
    });
}

#[test]
fn a_unique_id_is_enqueued_once_whichever_of_two_transactions_ends_first_and_however() {
    Place::run(async |place| {
        let (mut first, mut second, watcher) = (place.client().await, place.client().await, place.client().await);
        let message = |id| NewMessage::new(id, "17").key("k").unique();
        for (commits, id) in [(true, "committed"), (false, "rolled back")] {
            let mut tx = first.transaction().await.unwrap();
            let holder = pid(&tx).await;
            assert!(outbox::enqueue(&mut tx, &place.tables, "orders", message(id)).await.unwrap());
            let late = async {
                let mut tx = second.transaction().await.unwrap();
                let stored = outbox::enqueue(&mut tx, &place.tables, "orders", message(id)).await.unwrap();
                tx.commit().await.unwrap();
                stored
            };
            let ends = async {
                until_somebody_waits(&watcher, holder).await;
                if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
            };
            let (stored, ()) = tokio::join!(late, ends);
            assert_eq!(stored, !commits, "{id}");
        }
        assert_eq!(place.count(&watcher, "SELECT count(*) FROM {p}_outbox").await, 2);

        // In a batch; in another topic; again, once it was forgotten.
        let mut tx = first.transaction().await.unwrap();
        let plain = NewMessage::new("committed", "again");
        let batch = [message("committed"), message("new"), plain, message("new")];
        let stored = outbox::enqueue_batch(&mut tx, &place.tables, "orders", &batch).await.unwrap();
        assert_eq!(stored, [false, true, true, false]);
        assert!(outbox::enqueue(&mut tx, &place.tables, "mails", message("new")).await.unwrap());
        assert_eq!(inbox::forget(&mut tx, &place.tables, "unique/orders", &["new"]).await.unwrap(), 1);
        assert!(outbox::enqueue(&mut tx, &place.tables, "orders", message("new")).await.unwrap());
        let error = outbox::capture(&mut tx, &place.tables, "orders", &[message("new")]).await.unwrap_err();
        assert!(error.to_string().contains("unique"), "{error}");
        tx.commit().await.unwrap();
        assert_eq!(place.count(&watcher, "SELECT count(*) FROM {p}_outbox").await, 6);
    });
}

#[test]
fn payloads_are_given_back_byte_for_byte_and_can_be_asked_as_json() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let payloads: [&[u8]; 6] =
            [b"{ \"order\": 17, \"order\": 18 }", b"no json", b"\xff", b"", b"\"\\u0000\"", &b"[".repeat(100_000)];
        let mut tx = client.transaction().await.unwrap();
        for (n, payload) in payloads.iter().enumerate() {
            let id = format!("{n}");
            let seen = inbox::receive(&mut tx, &place.tables, "c", NewMessage::new(&id, payload)).await.unwrap();
            assert!(seen.is_first());
        }
        tx.commit().await.unwrap();
        let sql =
            format!("SELECT payload, {p}_json(payload)->>'order' FROM {p}_inbox ORDER BY position", p = place.prefix);
        let rows = client.query(&sql, &[]).await.unwrap();
        let read: Vec<(Vec<u8>, Option<String>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        for (n, (payload, order)) in read.iter().enumerate() {
            assert_eq!(payload, payloads[n]);
            assert_eq!(order.as_deref(), (n == 0).then_some("18"), "{n}");
        }
        assert_eq!(read.len(), payloads.len());
    });
}
