//! Messages that are received, and workers that handle them.

use crate::*;
use std::sync::Mutex;
use tokio::sync::oneshot;

type Does = dyn Fn(&Message) -> Result<(), BoxError> + Send + Sync;

/// The handler's actions for each message, and the order in which messages came.
struct Script {
    does: Box<Does>,
    handled: Mutex<Vec<String>>,
}

impl Script {
    fn new(does: impl Fn(&Message) -> Result<(), BoxError> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Script { does: Box::new(does), handled: Mutex::default() })
    }

    /// Returns the messages that were handled, and not undone.
    fn handled(&self) -> Vec<String> {
        self.handled.lock().unwrap().clone()
    }
}

impl Handler for Script {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        (self.does)(message)?;
        self.handled.lock().unwrap().push(text(&message.id));
        Ok(())
    }
}

/// Makes what dead workers have claimed claimable, as when their leases are over, and ends what
/// they have left at work in the database.
pub async fn release_all(place: &Place, client: &Client) {
    let left = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
    place.execute(client, left).await;
    pass_time(place, client).await;
}

/// Makes all messages due that wait for a back-off or a lease.
async fn pass_time(place: &Place, client: &Client) {
    let due = "UPDATE {p}_inbox SET due_at = now() WHERE due_at IS NOT NULL; UPDATE {p}_inbox_keys SET due_at = now(); \
         UPDATE {p}_inbox_claims SET until = now()";
    place.execute(client, due).await;
}

#[test]
fn a_redelivery_is_not_stored_again_whatever_became_of_the_first() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let message = NewMessage::new("m", "payload").key("k");
        assert!(place.receive(&mut client, "c", message).await.is_first());
        assert!(!place.receive(&mut client, "c", message).await.is_first());
        assert!(place.receive(&mut client, "d", message).await.is_first(), "another consumer");
        // Its mark is gone, and it waits still.
        let Seen::Duplicate { first_at } = place.receive(&mut client, "c", message).await else { panic!() };
        place
            .execute(
                &client,
                "DELETE FROM {p}_marks; UPDATE {p}_inbox SET enqueued_at = enqueued_at - interval '9 days'",
            )
            .await;
        let Seen::Duplicate { first_at: still } = place.receive(&mut client, "c", message).await else { panic!() };
        assert!(first_at.duration_since(still).unwrap() > 200 * HOUR, "since it came in: {still:?}");

        let seen = Script::new(|message: &Message| {
            assert_eq!(
                (message.payload.as_slice(), message.key.as_deref()),
                (b"payload".as_slice(), Some(b"k".as_slice()))
            );
            assert_eq!((message.name.as_str(), message.attempts), ("c", 0));
            Ok(())
        });
        let worker = place.worker("c");
        assert_eq!(worker.step(&seen).await.unwrap(), 1);
        assert_eq!(worker.step(&seen).await.unwrap(), 0);
        assert_eq!(seen.handled(), ["m"]);
        assert!(!place.receive(&mut client, "c", message).await.is_first(), "handled");
        let mut tx = client.transaction().await.unwrap();
        assert!(!inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap().is_first(), "they share their marks");
        assert!(inbox::once(&mut tx, &place.tables, "c", "n").await.unwrap().is_first());
        assert!(!inbox::receive(&mut tx, &place.tables, "c", NewMessage::new("n", "")).await.unwrap().is_first());
        let long = [0; ID_BYTES_MAX + 1];
        assert!(inbox::receive(&mut tx, &place.tables, "c", NewMessage::new(&long, "")).await.is_err());
        tx.rollback().await.unwrap();
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_inbox WHERE name = 'c'").await, 0);
    });
}

#[test]
fn what_fails_is_tried_again_later_and_keeps_its_error_until_it_is_a_dead_letter() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let hour = Retry::new(HOUR, HOUR).unwrap().attempts_max(Some(3)).unwrap();
        let worker = place.worker("c").retry(hour);
        let _ = place.receive(&mut client, "c", NewMessage::new("bad", "")).await;
        let _ = place.receive(&mut client, "c", NewMessage::new("panics", "")).await;
        let script = Script::new(|message: &Message| match message.id.as_slice() {
            b"bad" => Err(format!("no\0: {}", message.attempts).into()),
            b"panics" => panic!("oh"),
            _ => Ok(()),
        });
        for attempt in 1..=3 {
            assert_eq!(worker.step(&script).await.unwrap(), 2);
            assert_eq!(worker.step(&script).await.unwrap(), 0, "not before its time");
            let sql = "SELECT count(*) FROM {p}_inbox WHERE due_at > clock_timestamp() + interval '29 minutes'";
            assert_eq!(place.count(&client, sql).await, if attempt < 3 { 2 } else { 0 });
            let error = format!("SELECT count(*) FROM {{p}}_inbox WHERE error = E'no\u{fffd}: {}'", attempt - 1);
            assert_eq!(place.count(&client, &error).await, 1);
            pass_time(&place, &client).await;
        }
        assert_eq!(worker.step(&script).await.unwrap(), 0, "dead");
        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        let shown: Vec<_> = letters.iter().map(|letter| (text(&letter.message.id), letter.error.as_str())).collect();
        assert_eq!(shown, [("bad".into(), "no\u{fffd}: 2"), ("panics".into(), "it panicked: oh")]);
        assert!(letters.iter().all(|letter| letter.message.attempts == 3 && letter.died_at.elapsed().unwrap() < HOUR));
        let behind = inbox::dead_letters(&client, &place.tables, None, letters[0].position, 10).await.unwrap();
        assert_eq!(behind, letters[1..]);
        assert!(!place.receive(&mut client, "c", NewMessage::new("bad", "")).await.is_first());

        let first = Letters::These(&letters[..1]);
        assert_eq!(inbox::requeue(&client, &place.tables, first).await.unwrap(), 1);
        assert_eq!(inbox::requeue(&client, &place.tables, first).await.unwrap(), 0, "it is not dead any more");
        assert_eq!(inbox::discard(&client, &place.tables, Letters::These(&letters[1..])).await.unwrap(), 1);
        let good = Script::new(|_: &Message| Ok(()));
        assert_eq!(worker.step(&good).await.unwrap(), 1);
        assert_eq!(good.handled(), ["bad"]);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_inbox").await, 0);
    });
}

#[test]
fn a_key_keeps_its_order_and_waits_behind_its_failure_alone() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for (id, key) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")] {
            let _ = place.receive(&mut client, "c", NewMessage::new(id, "").key(key)).await;
        }
        let _ = place.receive(&mut client, "c", NewMessage::new("free", "")).await;
        let hour = Retry::new(HOUR, HOUR).unwrap().attempts_max(Some(2)).unwrap();
        let worker = place.worker("c").retry(hour);
        let script = Script::new(|message: &Message| if message.id == b"a1" { Err("no".into()) } else { Ok(()) });
        while worker.step(&script).await.unwrap() > 0 {}
        let handled = || script.handled().into_iter().filter(|id| id != "free").collect::<Vec<_>>();
        assert_eq!((handled(), script.handled().len()), (vec!["b1".into(), "b2".into()], 3), "a2 is behind a1");
        pass_time(&place, &client).await;
        while worker.step(&script).await.unwrap() > 0 {}
        assert_eq!(handled(), ["b1", "b2", "a2"], "a1 is a dead letter");
    });
}

/// Checks that the order of a key is that of commits: the second transaction waits, whatever it
/// received first.
#[test]
fn a_keys_order_is_that_of_commits() {
    Place::run(async |place| {
        let (mut first, mut second, mut watcher) = (place.client().await, place.client().await, place.client().await);
        let mut tx = first.transaction().await.unwrap();
        let holder = pid(&tx).await;
        let _ = inbox::receive(&mut tx, &place.tables, "c", NewMessage::new("1", "").key("k")).await.unwrap();
        let other = NewMessage::new("other", "").key("l");
        let _ = place.receive(&mut watcher, "c", other).await; // waits for nobody
        let waits = async { place.receive(&mut second, "c", NewMessage::new("2", "").key("k")).await };
        let ends = async {
            until_somebody_waits(&watcher, holder).await;
            let _ = inbox::receive(&mut tx, &place.tables, "c", NewMessage::new("3", "").key("k")).await.unwrap();
            tx.commit().await.unwrap();
        };
        let (seen, ()) = tokio::join!(waits, ends);
        assert!(seen.is_first());
        let script = Script::new(|_: &Message| Ok(()));
        while place.worker("c").step(&script).await.unwrap() > 0 {}
        let of_k: Vec<_> = script.handled().into_iter().filter(|id| id != "other").collect();
        assert_eq!(of_k, ["1", "3", "2"]);
    });
}

/// Checks that no other worker has a message while its handler is at work, even when its lease is
/// over: the row is locked. When its worker is gone, another one has it as soon as the lease is
/// over.
#[test]
fn a_message_at_work_is_nobody_elses_and_one_that_kills_its_workers_dies() {
    Place::run(async |place| {
        let (mut client, other) = (place.client().await, place.client().await);
        let _ = place.receive(&mut client, "c", NewMessage::new("m", "").key("k")).await;
        let _ = place.receive(&mut client, "c", NewMessage::new("n", "").key("k")).await;
        let worker = place.worker("c").retry(soon(Some(2)));
        let good = Script::new(|_: &Message| Ok(()));
        // The first attempt that kills its worker is not counted.
        for (attempt, attempts) in [(1, 0), (2, 0), (3, 1)] {
            let (begun, begins) = oneshot::channel();
            let never = Arc::new(Never { begun: Mutex::new(Some(begun)), attempts });
            tokio::select! {
                ended = worker.step(&never) => unreachable!("attempt {attempt} never ends: {ended:?}, {:?}", worker.stats()),
                () = async {
                    begins.await.unwrap();
                    place.execute(&other, "SET lock_timeout = '20ms'").await;
                    let locked = other.batch_execute(&format!("UPDATE {}_inbox SET error = error", place.prefix)).await;
                    assert!(locked.unwrap_err().code().unwrap().code() == "55P03", "its row is locked");
                    pass_time(&place, &other).await;
                    assert_eq!(worker.step(&good).await.unwrap(), 0);
                } => {}
            }
            // The worker is gone, and its connection with it; its lease is over.
            until("its lock is gone", async || {
                other.batch_execute(&format!("UPDATE {}_inbox SET error = error", place.prefix)).await.is_ok()
            })
            .await;
            pass_time(&place, &other).await;
        }
        assert_eq!(worker.step(&good).await.unwrap(), 1);
        assert_eq!(good.handled(), Vec::<String>::new(), "nobody tries again");
        assert_eq!(worker.step(&good).await.unwrap(), 1);
        assert_eq!(good.handled(), ["n"]);
        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        assert!(letters.len() == 1 && letters[0].error.starts_with("2 attempts were begun"), "{letters:?}");
    });
}

/// A handler that never ends.
struct Never {
    begun: Mutex<Option<oneshot::Sender<()>>>,
    attempts: u32,
}

impl Handler for Never {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        assert_eq!(message.attempts, self.attempts);
        self.begun.lock().unwrap().take().expect("it begins once").send(()).unwrap();
        std::future::pending().await
    }
}

#[test]
fn what_a_handler_did_is_undone_when_it_fails_or_is_late_or_its_transaction_has_failed() {
    Place::run(async |place| {
        let mut client = place.client().await;
        place.execute(&client, "CREATE TABLE {p}_effects (id bytea PRIMARY KEY)").await;
        for id in ["fails", "late", "careless", "good"] {
            let _ = place.receive(&mut client, "c", NewMessage::new(id, "")).await;
        }
        let effects = Arc::new(Effects { insert: format!("INSERT INTO {}_effects VALUES ($1)", place.prefix) });
        let worker = place.worker("c").lease(ms(200)).unwrap().retry(soon(Some(1)));
        assert_eq!(worker.step(&effects).await.unwrap(), 4);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_effects WHERE id = 'good'").await, 1);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_effects").await, 1);
        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        let errors: Vec<_> = letters.iter().map(|letter| (text(&letter.message.id), letter.error.as_str())).collect();
        assert_eq!(errors[0], ("fails".into(), "no"));
        assert_eq!(errors[1], ("late".into(), "it took longer than 200ms"));
        assert!(errors[2].0 == "careless" && errors[2].1.contains("transaction is aborted"), "{errors:?}");
    });
}

struct Effects {
    insert: String,
}

impl Handler for Effects {
    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        tx.execute(&self.insert, &[&message.id]).await?;
        match message.id.as_slice() {
            b"fails" => Err("no".into()),
            b"late" => std::future::pending().await,
            b"careless" => {
                // The second time is an error, which it ignores.
                let _ = tx.execute(&self.insert, &[&message.id]).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Polls once an hour, so that only a notification can wake it.
#[test]
fn a_worker_is_woken_by_a_commit() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let script = Script::new(|_: &Message| Ok(()));
        let worker = place.worker("c").poll(HOUR).unwrap();
        let told = async {
            let idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'LISTEN %'";
            until("it listens", async || place.count(&client, idle).await > 0).await;
            tokio::time::sleep(ms(200)).await; // and has looked
            let _ = place.receive(&mut client, "c", NewMessage::new("m", "")).await;
            until("it is handled", async || !script.handled().is_empty()).await;
        };
        worker.run(Arc::clone(&script), told).await.unwrap();
    });
}

/// Checks that a server that does not answer is taken for gone, and an outage has an end.
#[test]
fn no_answer_is_an_error_in_time() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let tx = client.transaction().await.unwrap();
        tx.batch_execute(&format!("LOCK TABLE {0}_inbox, {0}_outbox", place.prefix)).await.unwrap();
        let options = place.options().timeout(ms(10)).unwrap();
        let worker = Worker::new(options.clone(), place.tables.clone(), "c").unwrap().longest_outage(Duration::ZERO);
        let relay = Relay::new(options, place.tables.clone()).longest_outage(Duration::ZERO);
        let script = Script::new(|_: &Message| Ok(()));
        let never = std::future::pending;
        let (worker, relay) = tokio::join!(worker.run(script, never()), relay.run(Arc::new(Nothing), never()));
        for error in [worker.unwrap_err(), relay.unwrap_err()] {
            assert!(
                error.kind() == hapax_store::ErrorKind::Timeout && error.to_string().contains("statement timeout"),
                "{error}"
            );
        }
    });
}

/// Checks that the message at hand is finished, and the rest is given back.
#[test]
fn a_worker_that_stops_gives_back_what_it_has_not_begun() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for id in ["1", "2", "3"] {
            let _ = place.receive(&mut client, "c", NewMessage::new(id, "").key("k")).await;
        }
        let _ = place.receive(&mut client, "c", NewMessage::new("free", "")).await;
        let (stop, stopped) = oneshot::channel::<()>();
        let stops = Arc::new(Stops { stop: Mutex::new(Some(stop)), handled: Mutex::default() });
        let worker = place.worker("c").concurrency(1).unwrap();
        worker.run(Arc::clone(&stops), async { stopped.await.unwrap() }).await.unwrap();
        assert_eq!(*stops.handled.lock().unwrap(), [b"1"]);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_inbox").await, 3);
        assert_eq!(place.count(&client, "SELECT sum(attempts)::bigint FROM {p}_inbox").await, 0);
        let script = Script::new(|_: &Message| Ok(()));
        while place.worker("c").step(&script).await.unwrap() > 0 {}
        assert_eq!(script.handled().len(), 3, "nobody need wait for a lease");
    });
}

/// A handler that stops its worker, and takes a while.
struct Stops {
    stop: Mutex<Option<oneshot::Sender<()>>>,
    handled: Mutex<Vec<Vec<u8>>>,
}

impl Handler for Stops {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        self.stop.lock().unwrap().take().expect("it stops after the first").send(()).unwrap();
        tokio::time::sleep(ms(100)).await;
        self.handled.lock().unwrap().push(message.id.clone());
        Ok(())
    }
}
