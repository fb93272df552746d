//! Brokers that misbehave, and the relay's reaction.

use crate::publishing::relays::{start, until_empty};
use crate::*;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use tokio::sync::Semaphore;

/// Fills the outbox with messages that have no key.
async fn fill(place: &Place, client: &Client, messages: u32, payload: &str) {
    let sql = format!(
        "INSERT INTO {{p}}_outbox (name, due_at, id, payload) \
         SELECT 't', now(), convert_to(n::text, 'UTF8'), {payload} FROM generate_series(1, {messages}) n"
    );
    place.execute(client, &sql).await;
}

/// A broker that counts the messages that it is asked to publish, and fails while it is away.
#[derive(Default)]
struct Away {
    is_away: AtomicBool,
    asked: AtomicU64,
    published: AtomicU64,
}

impl Publisher for Away {
    async fn publish(&self, _: &Message) -> Result<(), BoxError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_away.load(Ordering::Relaxed) {
            return Err("connection refused".into());
        }
        self.published.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Checks that a broker that is away is probed, not asked for each message; and gets all of them
/// soon after it is back.
#[test]
fn a_broker_that_is_away_is_asked_a_few_times() {
    Place::run(async |place| {
        let (client, messages) = (place.client().await, 4_000);
        fill(&place, &client, messages, "''").await;
        let broker = Arc::new(Away { is_away: true.into(), ..Away::default() });
        let relay = place.relay().retry(Retry::new(ms(200), ms(60_000)).unwrap());
        let (stop, task) = start(relay.clone(), &broker);
        // The first messages; and then a few at a time, after pauses that double.
        until("it pauses", async || relay.stats().pauses > 0).await;
        let asked = || broker.asked.load(Ordering::Relaxed);
        let first = asked();
        until("it is asked again", async || asked() > first + 2).await;
        assert!((2..60).contains(&asked()), "it was asked {} times for {messages} messages", asked());
        broker.is_away.store(false, Ordering::Relaxed);
        until_empty(&place, &client).await;
        assert_eq!(broker.published.load(Ordering::Relaxed), u64::from(messages));
        stop.send(true).unwrap();
        task.await.unwrap();
    });
}

/// Checks that a claim is bounded in bytes, however large messages are and however many keys they
/// have.
#[test]
fn large_messages_are_claimed_within_a_budget() {
    Place::run(async |place| {
        let (client, messages) = (place.client().await, long(60, 600));
        let sql = format!(
            "INSERT INTO {{p}}_outbox (name, key, id, payload) \
             SELECT 't', convert_to((n % 40)::text, 'UTF8'), convert_to(n::text, 'UTF8'), convert_to(repeat('x', 1 << 20), 'UTF8') \
             FROM generate_series(1, {messages}) n; \
             INSERT INTO {{p}}_outbox_keys (name, key) SELECT DISTINCT name, key FROM {{p}}_outbox"
        );
        place.execute(&client, &sql).await;
        let gate = Arc::new(Gate(Semaphore::new(0), AtomicU64::new(0)));
        let relay = place.relay();
        let (stop, task) = start(relay.clone(), &gate);
        until("some are claimed", async || relay.stats().claimed > 0).await;
        tokio::time::sleep(ms(200)).await;
        let claimed = relay.stats().claimed;
        assert!((1..=17).contains(&claimed), "16 MiB, but {claimed} messages of 1 MiB were claimed");
        gate.0.add_permits(messages);
        until_empty(&place, &client).await;
        assert_eq!(gate.1.load(Ordering::Relaxed), messages as u64);
        stop.send(true).unwrap();
        task.await.unwrap();
        assert_eq!(relay.stats().done, messages as u64);
    });
}

/// A publisher that publishes as many messages as it gets permits.
struct Gate(Semaphore, AtomicU64);

impl Publisher for Gate {
    async fn publish(&self, _: &Message) -> Result<(), BoxError> {
        self.0.acquire().await?.forget();
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A publisher that remembers what it published; some messages fail, and one hangs.
#[derive(Default)]
struct Picky(Mutex<Vec<String>>);

impl Publisher for Picky {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        let id = String::from_utf8(message.id.clone())?;
        match id.as_str() {
            "hopeless" => return Err(std::io::Error::other(GiveUp::because("no such exchange")).into()),
            "stuck" => std::future::pending().await,
            _ => {}
        }
        self.0.lock().unwrap().push(id);
        Ok(())
    }
}

#[test]
fn what_is_given_up_or_expired_is_a_dead_letter_at_once_and_holds_up_nobody() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let over = std::time::SystemTime::now() - HOUR;
        for (id, key) in [("hopeless", "k"), ("behind", "k"), ("late", "l"), ("behind it", "l")] {
            let message = NewMessage::new(id, "").key(key);
            let message = if id == "late" { message.expires_at(over) } else { message };
            place.enqueue(&mut client, "t", message).await;
        }
        let broker = Arc::new(Picky::default());
        // Everything else is tried forever, an hour later.
        let relay = place.relay().retry(Retry::new(HOUR, HOUR).unwrap());
        place.publish_all(&client, relay.clone(), &broker).await;
        let mut published = broker.0.lock().unwrap().clone();
        published.sort();
        assert_eq!(published, ["behind", "behind it"]);
        let letters = outbox::dead_letters(&client, &place.tables, None, 0, 9).await.unwrap();
        let letters: Vec<_> = letters.iter().map(|letter| (&*letter.error, letter.message.attempts)).collect();
        assert_eq!(letters, [("no such exchange", 1), ("it expired before it was published", 0)]);
        let stats = relay.stats();
        assert_eq!((stats.done, stats.failed, stats.dead, stats.expired, stats.pauses), (2, 1, 1, 1, 0));
    });
}

#[test]
fn a_publication_that_hangs_holds_up_its_key_alone() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for id in ["stuck", "behind it"] {
            place.enqueue(&mut client, "t", NewMessage::new(id, "").key("stuck")).await;
        }
        let ids: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        let keyed = |id| NewMessage::new(id, "").key(id);
        place.enqueue_all(&mut client, "t", ids.iter().map(keyed)).await;
        let broker = Arc::new(Picky::default());
        let relay = |timeout| place.relay().publish_timeout(timeout).unwrap().retry(soon(Some(1)));
        // It is given up after an hour: who waited for it would wait in vain.
        let (_stop, task) = start(relay(HOUR), &broker);
        let left = "SELECT count(*) FROM {p}_outbox WHERE dead_at IS NULL";
        until("others are gone", async || place.count(&client, left).await == 2).await;
        task.abort();
        let _ = task.await;
        let over =
            "UPDATE {p}_outbox SET due_at = now() WHERE due_at IS NOT NULL; UPDATE {p}_outbox_keys SET due_at = now()";
        place.execute(&client, over).await;
        let (stop, task) = start(relay(ms(500)), &broker);
        until_empty(&place, &client).await;
        assert_eq!(broker.0.lock().unwrap().last().unwrap(), "behind it");
        stop.send(true).unwrap();
        task.await.unwrap();
        let letters = outbox::dead_letters(&client, &place.tables, None, 0, 9).await.unwrap();
        assert!(letters.len() == 1 && letters[0].error == "it took longer than 500ms", "{letters:?}");
    });
}

/// Checks that a topic with few messages takes turns with one that has many, and a key with many
/// with those that have few.
#[test]
fn few_do_not_wait_behind_many() {
    Place::run(async |place| {
        let mut client = place.client().await;
        fill(&place, &client, 10_000, "''").await;
        let hot: Vec<String> = (0..600).map(|n| format!("hot {n}")).collect();
        place.enqueue_all(&mut client, "t", hot.iter().map(|id| NewMessage::new(id, "").key("hot"))).await;
        let few: Vec<String> = (0..20).map(|n| format!("few {n}")).collect();
        place.enqueue_all(&mut client, "u", few.iter().map(|id| NewMessage::new(id, ""))).await;
        place.enqueue_all(&mut client, "t", few.iter().map(|id| NewMessage::new(id, "").key(id))).await;
        let broker = Arc::new(Picky::default());
        place.publish_all(&client, place.relay(), &broker).await;
        let published = broker.0.lock().unwrap().clone();
        assert_eq!(published.len(), 10_640);
        let last = published.iter().enumerate().filter(|(_, id)| id.starts_with("few")).map(|(at, _)| at).nth(19);
        assert!(last.is_some_and(|at| at < 3_000), "those of the small topic had come by {last:?}");
        let of_key: Vec<_> = published.iter().filter(|id| id.starts_with("hot")).collect();
        assert_eq!(of_key, hot.iter().collect::<Vec<_>>());
    });
}

/// A message's key and id.
type Sent = (Option<Vec<u8>>, Vec<u8>);

/// A publisher with a call for many messages at once.
#[derive(Default)]
struct Bulk(Mutex<Vec<Vec<Sent>>>);

impl Publisher for Bulk {
    async fn publish(&self, _: &Message) -> Result<(), BoxError> {
        Err("it is asked for batches only".into())
    }

    async fn publish_batch(&self, messages: &[Message]) -> Option<Vec<Result<(), BoxError>>> {
        let batch = messages.iter().map(|message| (message.key.clone(), message.id.clone())).collect();
        self.0.lock().unwrap().push(batch);
        let bad = |message: &Message| message.id == b"bad" && message.attempts == 0;
        Some(messages.iter().map(|message| if bad(message) { Err("no".into()) } else { Ok(()) }).collect())
    }
}

#[test]
fn a_publisher_gets_batches_of_messages_that_may_go_at_once() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let ids: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        let message = |(n, id)| {
            let message = NewMessage::new(id, "");
            if n % 3 == 0 { message } else { message.key(&KEYS[n % 3]) }
        };
        place.enqueue_all(&mut client, "t", ids.iter().enumerate().map(message)).await;
        place.enqueue(&mut client, "t", NewMessage::new("bad", "")).await;
        let broker = Arc::new(Bulk::default());
        place.publish_all(&client, place.relay(), &broker).await;
        let batches = broker.0.lock().unwrap().clone();
        assert!(batches.iter().any(|batch| batch.len() > 50), "{} batches", batches.len());
        for batch in &batches {
            let keys: Vec<_> = batch.iter().filter_map(|(key, _)| key.as_ref()).collect();
            assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "two of a key in a batch: {batch:?}");
        }
        let all: Vec<_> = batches.concat();
        assert_eq!(all.len(), 302, "one comes again");
        for key in &KEYS[1..] {
            let of_key = all.iter().filter(|(of, _)| of.as_deref() == Some(key.as_bytes()));
            let of_key: Vec<u32> = of_key.map(|(_, id)| String::from_utf8_lossy(id).parse().unwrap()).collect();
            assert!(of_key.len() == 100 && of_key.is_sorted(), "{of_key:?}");
        }
    });
}

const KEYS: [&str; 3] = ["", "a", "b"];
