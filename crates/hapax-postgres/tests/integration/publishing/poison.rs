//! Messages that a broker always refuses, and those beside them.

use crate::publishing::relays::{start, until_empty};
use crate::*;
use std::collections::HashSet;
use std::sync::Mutex;

/// A broker that refuses messages whose id begins with "bad", and remembers what it was asked for.
#[derive(Default)]
struct Refusing(Mutex<Vec<String>>);

impl Refusing {
    /// Returns how often it was asked for a message.
    fn asked(&self, id: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|asked| *asked == id).count()
    }

    /// Returns how many of these messages it was asked for.
    fn known(&self, ids: &[String]) -> usize {
        let asked: HashSet<String> = self.0.lock().unwrap().iter().cloned().collect();
        ids.iter().filter(|id| asked.contains(*id)).count()
    }
}

impl Publisher for Refusing {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        let id = String::from_utf8(message.id.clone())?;
        self.0.lock().unwrap().push(id.clone());
        if id.starts_with("bad") { Err("too large".into()) } else { Ok(()) }
    }
}

fn ids(what: &str, messages: u32) -> Vec<String> {
    (0..messages).map(|n| format!("{what} {n}")).collect()
}

fn message(id: &str, is_keyed: bool) -> NewMessage<'_> {
    let message = NewMessage::new(id, "");
    if is_keyed { message.key(id) } else { message }
}

/// The steps that messages took which were enqueued one after the other.
#[derive(Debug, PartialEq, Eq)]
struct Steps {
    claims: u64,
    given_back: u64,
    pauses: u64,
}

/// Enqueues messages of two topics, each when the one before is published, and counts what the
/// relay does meanwhile.
async fn steps(place: &Place, client: &mut Client, relay: &Relay, broker: &Refusing, what: &str) -> Steps {
    let before = relay.stats();
    for id in ids(what, 20) {
        for topic in ["t", "u"] {
            let id = format!("{id} {topic}");
            place.enqueue(client, topic, NewMessage::new(&id, "")).await;
            until("it is published", async || broker.asked(&id) == 1).await;
        }
    }
    let now = relay.stats();
    Steps {
        claims: now.claimed - before.claimed,
        given_back: now.released - before.released,
        pauses: now.pauses - before.pauses,
    }
}

/// Checks that those who come behind messages that are refused for good take the steps that they
/// take without those.
#[test]
fn messages_that_are_always_refused_stop_no_others() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let broker = Arc::new(Refusing::default());
        // Each is refused once within this test, so all counts are exact.
        let relay = place.relay().retry(Retry::new(HOUR, HOUR).unwrap());
        let (stop, task) = start(relay.clone(), &broker);
        let control = steps(&place, &mut client, &relay, &broker, "control").await;
        let bad = ids("bad", 20);
        place.enqueue_all(&mut client, "t", bad.iter().map(|id| NewMessage::new(id, ""))).await;
        // Those of another topic do not wait for the pause, those of this one for its end.
        place.enqueue(&mut client, "u", NewMessage::new("other", "")).await;
        until("another topic's is published", async || broker.asked("other") == 1).await;
        place.enqueue(&mut client, "t", NewMessage::new("behind", "")).await;
        until("one behind them is published", async || broker.asked("behind") == 1).await;
        until("each of them was tried", async || broker.known(&bad) == bad.len()).await;
        let beside = steps(&place, &mut client, &relay, &broker, "beside").await;
        assert_eq!(beside, control);
        stop.send(true).unwrap();
        task.await.unwrap();
        assert!(bad.iter().all(|id| broker.asked(id) == 1));
    });
}

/// Checks that those which are tried again and again, and fail, are no reason for another pause,
/// and do not come more often than they should.
#[test]
fn messages_that_fail_again_and_again_are_no_outage() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let broker = Arc::new(Refusing::default());
        let relay = place.relay();
        let (stop, task) = start(relay.clone(), &broker);
        let bad = ids("bad", 20);
        place.enqueue_all(&mut client, "t", bad.iter().enumerate().map(|(n, id)| message(id, n % 2 == 1))).await;
        until("it was paused", async || relay.stats().pauses > 0).await;
        until("each of them was tried", async || broker.known(&bad) == bad.len()).await;
        place.enqueue(&mut client, "t", NewMessage::new("behind", "")).await;
        until("one behind them is published", async || broker.asked("behind") == 1).await;
        let pauses = relay.stats().pauses;
        until("they are tried often", async || bad.iter().all(|id| broker.asked(id) > 20)).await;
        assert_eq!(relay.stats().pauses, pauses, "nothing new has failed");
        for n in 0..8 {
            let id = format!("good {n}");
            place.enqueue(&mut client, "t", NewMessage::new(&id, "").key("k")).await;
            until("it is published", async || broker.asked(&id) == 1).await;
        }
        place.execute(&client, "UPDATE {p}_outbox SET dead_at = now(), due_at = NULL").await;
        until_empty(&place, &client).await;
        stop.send(true).unwrap();
        task.await.unwrap();
        assert_eq!(relay.stats().done, 9);
    });
}

/// Checks that the newest one does not wait until hundreds in front of it were tried, whether they
/// have keys or not.
#[test]
fn the_newest_is_tried_before_hundreds_that_are_refused() {
    for is_keyed in [false, true] {
        Place::run(async |place| {
            let mut client = place.client().await;
            let broker = Arc::new(Refusing::default());
            let relay = place.relay().retry(Retry::new(HOUR, HOUR).unwrap());
            let (stop, task) = start(relay.clone(), &broker);
            let bad = ids("bad", 600);
            place.enqueue_all(&mut client, "t", bad.iter().map(|id| message(id, is_keyed))).await;
            until("it pauses", async || relay.stats().pauses > 0).await;
            place.enqueue(&mut client, "t", message("behind", is_keyed)).await;
            until("one behind them is published", async || broker.asked("behind") == 1).await;
            stop.send(true).unwrap();
            task.await.unwrap();
            let asked = broker.0.lock().unwrap().clone();
            let before = asked.iter().position(|id| id == "behind").unwrap();
            assert!(before < 100, "it was asked for {before} of {} before", bad.len());
        });
    }
}
