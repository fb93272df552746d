//! Finished messages that are handled once more on purpose, whoever dies meanwhile.

use crate::handling::handled::list;
use crate::*;
use hapax_postgres::inbox::{Finished, Handled, HandledQuery};
use std::sync::atomic::AtomicBool;
use tokio::sync::Notify;

async fn requeue(place: &Place, client: &Client, events: &[Handled]) -> u64 {
    inbox::requeue_handled(client, &place.tables, Finished::These(events)).await.unwrap()
}

async fn kept(place: &Place, client: &Client) -> Vec<Handled> {
    let events = list(place, client, HandledQuery::all().limit(1_000)).await;
    events.into_iter().filter(|event| event.is_kept && event.requeued_at.is_none()).collect()
}

#[test]
fn what_was_kept_is_handled_once_more_as_the_last_of_its_key() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let (worker, keeps) = (place.worker("c").keep(Keep::Messages), Arc::new(Keeps::default()));
        let headers = [("a", "b"), ("traceparent", "x")];
        let first =
            NewMessage::new("m", "payload").key("k").kind("paid").subject("order-17").source("/").headers(&headers);
        assert!(place.receive(&mut client, "c", first).await.is_first());
        assert_eq!(worker.step(&keeps).await.unwrap(), 1);
        let _ = place.receive(&mut client, "c", NewMessage::new("n", "").key("k")).await;
        let events = kept(&place, &client).await;
        assert_eq!(requeue(&place, &client, &events).await, 1);
        assert_eq!(requeue(&place, &client, &events).await, 0, "it waits");
        assert!(!place.receive(&mut client, "c", first).await.is_first(), "a redelivery is a duplicate meanwhile");
        let before = keeps.taken();
        assert_eq!(worker.step(&keeps).await.unwrap(), 2);
        let again = keeps.taken();
        assert_eq!(again.iter().map(|message| text(&message.id)).collect::<Vec<_>>(), ["n", "m"]);
        let mut same = again[1].clone();
        same.enqueued_at = before[0].enqueued_at;
        assert_eq!(same, before[0], "all of it comes again, with all attempts before it");
        assert!(!place.receive(&mut client, "c", first).await.is_first(), "and after it");
        assert_eq!(requeue(&place, &client, &events).await, 0, "that row was requeued");
        let events = list(&place, &client, HandledQuery::of_subject("order-17")).await;
        assert_eq!(events.iter().map(|event| event.requeued_at.is_some()).collect::<Vec<_>>(), [true, false]);

        // By its id, and of that consumer alone.
        let ids = [b"m".to_vec(), b"none".to_vec()];
        assert_eq!(inbox::requeue_handled(&client, &place.tables, Finished::Ids("d", &ids)).await.unwrap(), 0);
        assert_eq!(inbox::requeue_handled(&client, &place.tables, Finished::Ids("c", &ids)).await.unwrap(), 1);
        // If its mark is gone, too, it waits once.
        place.execute(&client, "DELETE FROM {p}_marks").await;
        assert!(!place.receive(&mut client, "c", first).await.is_first());
        assert_eq!(worker.step(&keeps).await.unwrap(), 1);
        // Of what is not kept nothing is requeued.
        let record = place.worker("c").keep(Keep::Described);
        let _ = place.receive(&mut client, "c", NewMessage::new("record", "").kind("a")).await;
        record.step(&keeps).await.unwrap();
        let ids = [b"record".to_vec()];
        assert_eq!(inbox::requeue_handled(&client, &place.tables, Finished::Ids("c", &ids)).await.unwrap(), 0);
    });
}

/// Requeues every message by many operators at once, while workers handle them. Each row is
/// requeued once, and each requeueing is an attempt.
pub async fn operators(place: &Place, client: &mut Client, messages: usize) {
    let effects = Arc::new(Keeps::default());
    let worker = place.worker("c").keep(Keep::Messages);
    for n in 0..messages {
        let (id, key) = (n.to_string(), (n % 3).to_string());
        let message = NewMessage::new(&id, "");
        let message = if n % 2 == 0 { message } else { message.key(&key) };
        assert!(place.receive(client, "c", message).await.is_first());
    }
    while worker.step(&effects).await.unwrap() > 0 {}
    let given = kept(place, client).await;
    let stop = Notify::new();
    let requeued = AtomicU64::new(0);
    let works = worker.run(Arc::clone(&effects), stop.notified());
    let operators = async {
        let operator = async || {
            let client = place.client().await;
            for _ in 0..4 {
                requeued.fetch_add(requeue(place, &client, &given).await, Ordering::Relaxed);
                tokio::time::sleep(ms(20)).await;
            }
        };
        tokio::join!(operator(), operator(), operator(), operator());
        until("all are handled", async || place.count(client, "SELECT count(*) FROM {p}_inbox").await == 0).await;
        stop.notify_one();
    };
    let (worked, ()) = tokio::join!(works, operators);
    worked.unwrap();
    let (effects, requeued) = (effects.taken().len(), requeued.load(Ordering::Relaxed) as usize);
    assert_eq!((effects, requeued), (2 * messages, messages));
}

#[test]
fn operators_who_requeue_at_once_requeue_each_message_once() {
    Place::run(async |place| {
        let mut client = place.client().await;
        operators(&place, &mut client, 60).await;
    });
}

/// A handler that stands still until it is told to go on.
#[derive(Default)]
struct Still {
    is_there: Notify,
    goes_on: Notify,
    fails: AtomicBool,
}

impl Handler for Still {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), BoxError> {
        self.is_there.notify_one();
        self.goes_on.notified().await;
        if self.fails.load(Ordering::Relaxed) { Err(GiveUp::because("no").into()) } else { Ok(()) }
    }
}

#[test]
fn what_a_worker_has_is_not_requeued_before_it_is_committed() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let (worker, still) = (place.worker("c").keep(Keep::Messages), Arc::new(Still::default()));
        let _ = place.receive(&mut client, "c", NewMessage::new("m", "").key("k")).await;
        let ids = [b"m".to_vec()];
        let requeue = async || inbox::requeue_handled(&client, &place.tables, Finished::Ids("c", &ids)).await.unwrap();
        for round in 0..2 {
            let step = worker.step(&still);
            let meets = async {
                still.is_there.notified().await;
                assert_eq!(requeue().await, 0, "the worker has it");
                still.goes_on.notify_one();
            };
            assert_eq!(tokio::join!(step, meets).0.unwrap(), 1);
            assert_eq!(requeue().await, u64::from(round == 0));
            if round == 0 {
                // The same for a dead letter, by the other call.
                still.fails.store(true, Ordering::Relaxed);
            }
        }
        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        let letter = Letters::These(&letters[..1]);
        let both = tokio::join!(async { inbox::requeue(&client, &place.tables, letter).await.unwrap() }, async {
            inbox::requeue(&place.client().await, &place.tables, letter).await.unwrap()
        });
        assert_eq!(both.0 + both.1, 1);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_inbox WHERE dead_at IS NULL").await, 1);
        // A worker that has stood still for longer than its lease does nothing to what was
        // requeued.
        still.fails.store(false, Ordering::Relaxed);
        let late = place.worker("c").lease(ms(100)).unwrap().retry(soon(Some(1)));
        assert_eq!(late.step(&still).await.unwrap(), 1);
        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        assert_eq!(inbox::requeue(&client, &place.tables, Letters::These(&letters[..1])).await.unwrap(), 1);
        let keeps = Arc::new(Keeps::default());
        assert_eq!(place.worker("c").step(&keeps).await.unwrap(), 1);
        assert_eq!(keeps.taken().len(), 1);
    });
}
