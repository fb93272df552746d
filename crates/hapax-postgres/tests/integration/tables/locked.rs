//! Rows that an operator has locked in an open transaction: nobody waits for them, and all others
//! are settled.

use crate::publishing::relays::{start, until_empty};
use crate::*;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;
use tokio::task::JoinHandle;

const MESSAGES: usize = 2_000;
const LOCKED: usize = 10;

/// A broker and a handler that counts, and lets an operator lock rows while the first messages are
/// in flight.
struct Counter {
    operator: Client,
    /// The rows that the operator locks. ID is the message's id.
    locks: String,
    locked: Mutex<HashSet<String>>,
    times: Mutex<HashMap<String, u32>>,
}

impl Counter {
    async fn new(place: &Place, locks: &str) -> Arc<Self> {
        let operator = place.client().await;
        operator.batch_execute("BEGIN").await.unwrap();
        let locks = locks.replace("{p}", &place.prefix);
        Arc::new(Counter { operator, locks, locked: Mutex::default(), times: Mutex::default() })
    }

    fn times(&self) -> HashMap<String, u32> {
        self.times.lock().unwrap().clone()
    }

    fn locked(&self) -> HashSet<String> {
        self.locked.lock().unwrap().clone()
    }

    async fn count(&self, message: &Message) {
        let id = String::from_utf8(message.id.clone()).unwrap();
        *self.times.lock().unwrap().entry(id.clone()).or_default() += 1;
        let is_one_to_lock = {
            let mut locked = self.locked.lock().unwrap();
            locked.len() < LOCKED && locked.insert(id.clone())
        };
        if is_one_to_lock {
            self.operator.batch_execute(&self.locks.replace("ID", &format!("'{id}'"))).await.unwrap();
        }
    }

    /// Returns those that were begun more than once.
    fn often(&self) -> Vec<(String, u32)> {
        self.times().into_iter().filter(|(_, times)| *times > 1).collect()
    }

    async fn end(&self) {
        self.operator.batch_execute("ROLLBACK").await.unwrap();
    }
}

impl Publisher for Counter {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        self.count(message).await;
        Ok(())
    }
}

impl Handler for Counter {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        self.count(message).await;
        Ok(())
    }
}

/// Watches for sessions that wait for this one.
struct Watch {
    stop: Arc<AtomicBool>,
    watching: JoinHandle<(u64, u64)>,
}

impl Watch {
    async fn start(place: &Place, holder: i32) -> Self {
        let (stop, client) = (Arc::new(AtomicBool::new(false)), place.client().await);
        let stopped = Arc::clone(&stop);
        let watching = tokio::spawn(async move {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
            let (mut waits, mut looks) = (0, 0);
            while !stopped.load(Ordering::Relaxed) {
                waits += u64::from(client.query_one(sql, &[&holder]).await.unwrap().get::<_, i64>(0) > 0);
                looks += 1;
                tokio::time::sleep(ms(2)).await;
            }
            (waits, looks)
        });
        Watch { stop, watching }
    }

    /// Fails if anybody has waited.
    async fn end(self, what: &str) {
        self.stop.store(true, Ordering::Relaxed);
        let (waits, looks) = self.watching.await.unwrap();
        println!("{what}: somebody waited in {waits} of {looks} looks");
        assert_eq!(waits, 0, "{what}: somebody waits for the operator");
    }
}

/// Publishes messages while an operator has locked what was in flight, for longer than its lease
/// lasts. Returns how often the messages that were locked were published; all others were published
/// once.
async fn relay_beside_an_operator(place: &Place, key: impl Fn(usize) -> Option<String>, locks: &str) -> Vec<u32> {
    let mut client = place.client().await;
    let ids: Vec<String> = (0..MESSAGES).map(|n| format!("m{n}")).collect();
    let keys: Vec<Option<String>> = (0..MESSAGES).map(key).collect();
    let message = |n: usize| match &keys[n] {
        None => NewMessage::new(&ids[n], ""),
        Some(key) => NewMessage::new(&ids[n], "").key(key),
    };
    for from in (0..MESSAGES).step_by(500) {
        place.enqueue_all(&mut client, "t", (from..from + 500).map(message)).await;
    }
    let broker = Counter::new(place, locks).await;
    let watch = Watch::start(place, pid(&broker.operator).await).await;
    let relay = place.relay().publish_timeout(ms(1_000)).unwrap().longest_outage(Duration::ZERO);
    let (stop, running) = start(relay, &broker);
    until("all others are settled", async || {
        let locked = broker.locked().into_iter().map(|id| format!("'{id}'::bytea")).collect::<Vec<_>>().join(", ");
        let left = format!("SELECT count(*) FROM {{p}}_outbox WHERE NOT id = ANY (ARRAY[{locked}]::bytea[])");
        place.count(&client, &left).await == 0
    })
    .await;
    // A lease is three publications long.
    let over: SystemTime = client.query_one("SELECT clock_timestamp() + interval '4 s'", &[]).await.unwrap().get(0);
    until("the leases are over", async || {
        client.query_one("SELECT clock_timestamp() > $1", &[&over]).await.unwrap().get(0)
    })
    .await;
    assert_eq!(broker.often(), [], "published while they are locked");
    watch.end("a relay").await;
    broker.end().await;
    until_empty(place, &client).await;
    stop.send(true).unwrap();
    running.await.unwrap();
    let (times, locked) = (broker.times(), broker.locked());
    assert_eq!((times.len(), locked.len()), (MESSAGES, LOCKED));
    assert!(broker.often().iter().all(|(id, _)| locked.contains(id)), "{:?}", broker.often());
    locked.iter().map(|id| times[id]).collect()
}

const MESSAGE: &str = "SELECT FROM {p}_outbox WHERE id = ID FOR UPDATE";

#[test]
fn what_an_operator_has_locked_is_published_at_most_once_more() {
    Place::run(async |place| {
        let times = relay_beside_an_operator(&place, |_| None, MESSAGE).await;
        assert!(times.iter().all(|times| *times <= 2), "{times:?}");
    });
}

#[test]
fn a_key_whose_message_is_locked_is_kept_until_that_is_settled() {
    Place::run(async |place| {
        let times = relay_beside_an_operator(&place, |n| Some(format!("k{n}")), MESSAGE).await;
        assert!(times.iter().all(|times| *times == 1), "{times:?}");
    });
}

#[test]
fn messages_of_keys_that_are_locked_are_settled() {
    Place::run(async |place| {
        let locks = "SELECT FROM {p}_outbox_keys k WHERE k.key = (
            SELECT m.key FROM {p}_outbox m WHERE m.id = ID) FOR UPDATE";
        let times = relay_beside_an_operator(&place, |n| Some(format!("k{n}")), locks).await;
        assert!(times.iter().all(|times| *times == 1), "{times:?}");
    });
}

/// A whole table, since what is locked between a settlement's look and its removal is waited for.
#[test]
fn a_settlement_gives_up_waiting_and_is_tried_again_and_nothing_is_published_twice() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let ids: Vec<String> = (0..LOCKED).map(|n| format!("{n}")).collect();
        place.enqueue_all(&mut client, "t", ids.iter().map(|id| NewMessage::new(id, ""))).await;
        let broker = Counter::new(&place, "LOCK TABLE {p}_outbox IN EXCLUSIVE MODE").await;
        let operator = pid(&broker.operator).await;
        let (stop, running) = start(place.relay(), &broker);
        let waits = "SELECT pid, query_start::text FROM pg_stat_activity
            WHERE $1 = ANY(pg_blocking_pids(pid)) AND query LIKE '%outbox_settle%'";
        let seen = Mutex::new(HashSet::new());
        let waited = async |settlements| {
            until("settlements wait", async || {
                let waiting = client.query(waits, &[&operator]).await.unwrap();
                let mut seen = seen.lock().unwrap();
                seen.extend(waiting.iter().map(|row| (row.get::<_, i32>(0), row.get::<_, String>(1))));
                seen.len() >= settlements
            })
            .await;
        };
        waited(1).await;
        // Less than the time after which the relay itself gives up. Five times: a busy machine may
        // be late once.
        let longer =
            format!("SET lock_timeout = '3s'; BEGIN; LOCK TABLE {}_outbox IN ROW EXCLUSIVE MODE", place.prefix);
        let mut is_first = false;
        for settlements in 2..7 {
            let (session, longer) = (place.client().await, longer.clone());
            let waiting = tokio::spawn(async move { session.batch_execute(&longer).await });
            waited(settlements).await;
            is_first = !waiting.is_finished();
            waiting.abort();
            if is_first {
                break;
            }
        }
        assert!(is_first, "settlements wait as long as somebody who waits for three seconds");
        broker.end().await;
        until_empty(&place, &client).await;
        stop.send(true).unwrap();
        running.await.unwrap();
        assert_eq!((broker.times().len(), broker.often()), (LOCKED, vec![]));
    });
}

/// Rows of the inbox, of its keys, and of what says that somebody is awake.
#[test]
fn a_worker_waits_for_no_operator() {
    const OTHERS: &str = "SELECT count(*) FROM {p}_inbox m WHERE NOT m.key = ANY ('{0,1,2,3,40,41}')";
    Place::run(async |place| {
        for (locked, which) in [
            ("messages", "SELECT FROM {p}_inbox WHERE key = ANY ('{0,1,2,3,40,41}') FOR UPDATE SKIP LOCKED"),
            ("keys", "SELECT FROM {p}_inbox_keys WHERE key = ANY ('{0,1,2,3,40,41}') FOR UPDATE"),
            ("what rings", "SELECT FROM {p}_inbox_bell FOR UPDATE"),
        ] {
            let mut client = place.client().await;
            let ids: Vec<String> = (0..60).map(|n| format!("{n}")).collect();
            for id in &ids {
                let _ = place.receive(&mut client, locked, NewMessage::new(id, "").key(id)).await;
            }
            let handler = Counter::new(&place, which).await;
            let watch = Watch::start(&place, pid(&handler.operator).await).await;
            let worker = place.worker(locked).concurrency(4).unwrap().longest_outage(Duration::ZERO);
            let done = async {
                until("all others are handled", async || place.count(&client, OTHERS).await == 0).await;
                watch.end(locked).await;
                handler.end().await;
                let left = "SELECT count(*) FROM {p}_inbox";
                until("all are handled", async || place.count(&client, left).await == 0).await;
            };
            worker.run(Arc::clone(&handler), done).await.unwrap();
        }
    });
}

#[test]
fn operators_do_not_wait_for_each_other() {
    Place::run(async |place| {
        let (mut client, operator) = (place.client().await, place.client().await);
        let receive = async |client: &mut Client, ids: [&str; 3]| {
            for id in ids {
                assert!(place.receive(client, "c", NewMessage::new(id, "").key(id)).await.is_first());
            }
        };
        let (limit, locks) = ("SET lock_timeout = '10s'", "BEGIN; SELECT FROM {p}_inbox WHERE id = 'b' FOR UPDATE");
        client.batch_execute(limit).await.unwrap();
        receive(&mut client, ["a", "b", "c"]).await;
        assert_eq!(place.worker("c").concurrency(3).unwrap().step(&Arc::new(GivesUp)).await.unwrap(), 3);
        place.execute(&operator, locks).await;
        let watch = Watch::start(&place, pid(&operator).await).await;
        assert_eq!(inbox::requeue(&client, &place.tables, Letters::Of(Some("c"))).await.unwrap(), 2);
        assert_eq!(inbox::discard(&client, &place.tables, Letters::Of(Some("c"))).await.unwrap(), 0);
        operator.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(inbox::discard(&client, &place.tables, Letters::Of(Some("c"))).await.unwrap(), 1);

        let worker = place.worker("c").keep(Keep::Messages).concurrency(3).unwrap();
        assert_eq!(worker.step(&Arc::new(Keeps::default())).await.unwrap(), 2);
        place.execute(&operator, "BEGIN; SELECT FROM {p}_handled WHERE id = 'a' FOR UPDATE").await;
        let ids = ["a", "c"].map(|id| id.as_bytes().to_vec());
        let these = inbox::Finished::Ids("c", &ids);
        assert_eq!(inbox::requeue_handled(&client, &place.tables, these).await.unwrap(), 1);
        watch.end("operators").await;
        operator.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(inbox::requeue_handled(&client, &place.tables, these).await.unwrap(), 1);
    });
}

/// Marks that are locked are seen all the same, and keep the partition that they are in.
#[test]
fn nobody_waits_for_an_operator_that_has_locked_marks_but_who_forgets_them() {
    Place::run(async |place| {
        let (mut client, operator) = (place.client().await, place.client().await);
        let once = async |client: &mut Client, ids: [&str; 2]| {
            let mut tx = client.transaction().await.unwrap();
            let seen = inbox::once_batch(&mut tx, &place.tables, "c", &ids).await.unwrap();
            tx.commit().await.unwrap();
            [seen[0].is_first(), seen[1].is_first()]
        };
        assert_eq!(once(&mut client, ["a", "b"]).await, [true, true]);
        place.execute(&operator, "BEGIN; SELECT FROM {p}_marks FOR UPDATE").await;
        // Whoever forgets says for how long he waits.
        let mut tx = client.transaction().await.unwrap();
        tx.batch_execute("SET LOCAL lock_timeout = '50ms'").await.unwrap();
        assert!(inbox::forget(&mut tx, &place.tables, "c", &["b"]).await.is_err());
        tx.rollback().await.unwrap();

        let watch = Watch::start(&place, pid(&operator).await).await;
        let retention = Retention::new(HOUR, HOUR).unwrap();
        for new in ["d", "e", "f"] {
            assert_eq!(once(&mut client, ["a", new]).await, [false, true]);
            let received = format!("received {new}");
            assert!(!place.receive(&mut client, "c", NewMessage::new("b", "")).await.is_first());
            assert!(place.receive(&mut client, "c", NewMessage::new(&received, "")).await.is_first());
            place.execute(&client, "UPDATE {p}_mark_buckets SET opened_at = '-infinity'").await;
            assert_eq!(retention.expire(&client, &place.tables).await.unwrap().begun, 1, "{new}");
        }
        let over = "UPDATE {p}_mark_buckets SET closed_at = '-infinity' WHERE closed_at IS NOT NULL";
        let left = "SELECT count(*) FROM {p}_marks WHERE id = ANY ('{a,b}')";
        place.execute(&client, over).await;
        assert!(retention.expire(&client, &place.tables).await.unwrap().put_off);
        assert_eq!((place.count(&client, left).await, once(&mut client, ["a", "g"]).await), (2, [true, true]));
        watch.end("whoever marks").await;
        operator.batch_execute("ROLLBACK").await.unwrap();
        assert!(!retention.expire(&client, &place.tables).await.unwrap().put_off);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_marks WHERE id = 'b'").await, 0);
    });
}
