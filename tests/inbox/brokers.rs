//! Brokers that misbehave: what a relay does about them.

use crate::relays::{start, until_empty};
use crate::*;
use std::sync::atomic::AtomicBool;

/// Fills the outbox with messages that have no key.
async fn fill(place: &Place, client: &Client, messages: u32, payload: &str) {
    let sql = format!(
        "INSERT INTO {{p}}_outbox (name, due_at, id, payload) \
         SELECT 't', now(), convert_to(n::text, 'UTF8'), {payload} FROM generate_series(1, {messages}) n"
    );
    place.execute(client, &sql).await;
}

/// Counts what it is asked to publish, and fails while it is away.
#[derive(Default)]
struct Away {
    is_away: AtomicBool,
    asked: AtomicU64,
    published: AtomicU64,
}

impl Publisher for Away {
    async fn publish(&self, _: &Message) -> Result<(), Failure> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_away.load(Ordering::Relaxed) {
            return Err("connection refused".into());
        }
        self.published.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A broker that is away is probed, not asked for each message; and gets all of them soon after it is back.
#[test]
fn a_broker_that_is_away_is_asked_a_few_times() {
    Place::run(async |place| {
        let (client, messages) = (place.client().await, 4_000);
        fill(&place, &client, messages, "''").await;
        let broker = Arc::new(Away { is_away: true.into(), ..Away::default() });
        let (stop, relay) = start(place.relay().retry(Retry::new(ms(200), ms(60_000)).unwrap()), &broker);
        tokio::time::sleep(ms(1_200)).await;
        let asked = broker.asked.load(Ordering::Relaxed);
        assert!((2..600).contains(&asked), "it was asked {asked} times for {messages} messages in 1.2 s");
        broker.is_away.store(false, Ordering::Relaxed);
        let back = tokio::time::Instant::now();
        until_empty(&place, &client).await;
        assert!(back.elapsed() < ms(2_500), "it took {:?} to publish what had waited", back.elapsed());
        assert_eq!(broker.published.load(Ordering::Relaxed), u64::from(messages));
        stop.send(true).unwrap();
        relay.await.unwrap();
    });
}

/// Panics before there is a future.
struct Early(AtomicU64);

impl Publisher for Early {
    #[allow(clippy::manual_async_fn, reason = "what an `async fn` does, it does in its future")]
    fn publish(&self, message: &Message) -> impl Future<Output = Result<(), Failure>> + Send {
        assert!(message.id != b"bad", "no such address");
        self.0.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    }
}

#[test]
fn a_panic_before_there_is_a_future_is_an_attempt_that_failed() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for (id, key) in [("bad", "k"), ("behind", "k"), ("other", "l")] {
            place.enqueue(&mut client, "t", NewMessage::new(id, "").key(key)).await;
        }
        let broker = Arc::new(Early(AtomicU64::new(0)));
        let (stop, relay) = start(place.relay().retry(soon(Some(2))), &broker);
        until_empty(&place, &client).await;
        stop.send(true).unwrap();
        relay.await.unwrap();
        let letters = outbox::dead_letters(&client, &place.tables, None, 0, 9).await.unwrap();
        assert!(letters.len() == 1 && letters[0].message.attempts == 2, "{letters:?}");
        assert_eq!(letters[0].error, "it panicked: no such address");
        assert_eq!(broker.0.load(Ordering::Relaxed), 2);
    });
}

/// What is claimed is bounded in bytes, however large messages are.
#[test]
fn large_messages_are_claimed_within_a_budget() {
    Place::run(async |place| {
        let (client, messages) = (place.client().await, 600);
        fill(&place, &client, messages, "convert_to(repeat('x', 1048576), 'UTF8')").await;
        let broker = Arc::new(Away::default());
        let began = tokio::time::Instant::now();
        let (stop, relay) = start(place.relay(), &broker);
        until_empty(&place, &client).await;
        println!("{messages} messages of 1 MiB took {:?}", began.elapsed());
        assert_eq!(broker.published.load(Ordering::Relaxed), u64::from(messages));
        stop.send(true).unwrap();
        relay.await.unwrap();
    });
}
