//! Messages that a broker always refuses, and those beside them.

use crate::relays::{start, until_empty};
use crate::*;
use std::collections::HashMap;
use std::sync::Mutex;

/// A broker that refuses messages whose id begins with "bad", and remembers how often it was asked
/// for each.
#[derive(Default)]
struct Refusing(Mutex<HashMap<String, u32>>);

impl Refusing {
    /// Returns how often it was asked for a message.
    fn asked(&self, id: &str) -> u32 {
        self.0.lock().unwrap().get(id).copied().unwrap_or(0)
    }

    /// Returns how many of these messages it was asked for.
    fn known(&self, ids: &[String]) -> usize {
        ids.iter().filter(|id| self.asked(id) > 0).count()
    }
}

impl Publisher for Refusing {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        let id = String::from_utf8(message.id.clone())?;
        *self.0.lock().unwrap().entry(id.clone()).or_default() += 1;
        if id.starts_with("bad") { Err("too large".into()) } else { Ok(()) }
    }
}

fn ids(what: &str, messages: u32) -> Vec<String> {
    (0..messages).map(|n| format!("{what} {n}")).collect()
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
        let keyed = |(n, id)| {
            let message = NewMessage::new(id, "");
            if n % 2 == 0 { message } else { message.key(id) }
        };
        place.enqueue_all(&mut client, "t", bad.iter().enumerate().map(keyed)).await;
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
