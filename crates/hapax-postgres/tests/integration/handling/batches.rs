//! Batches: their sizes and transactions, their answers, and what becomes of each message when one
//! of them fails, is lost, or kills the worker.

use crate::handling::workers::release_all;
use crate::*;
use std::future::pending;
use std::sync::Mutex;
use std::time::SystemTime;
use tokio_postgres::Transaction;

pub type Answer = Result<Vec<Result<(), BoxError>>, BoxError>;
/// Answers for the messages of a call.
type Says = dyn Fn(&[String]) -> Answer + Send + Sync;

/// A sink that writes a row for each message of a batch, in one statement, and records its calls.
pub struct Sink {
    insert: String,
    takes: Duration,
    says: Box<Says>,
    /// The ids of each call, and the attempts at them before.
    calls: Mutex<Vec<Vec<(String, u32)>>>,
}

impl Sink {
    /// Creates a sink of this place, and its table. What it says that is done has its row, and if
    /// it fails, all have.
    pub async fn new(
        place: &Place,
        client: &Client,
        takes: Duration,
        says: impl Fn(&[String]) -> Answer + Send + Sync + 'static,
    ) -> Arc<Self> {
        place.execute(client, "CREATE TABLE IF NOT EXISTS {p}_rows (n bigserial, tx bigint, id text)").await;
        let insert =
            format!("INSERT INTO {}_rows (tx, id) SELECT txid_current(), i FROM unnest($1::text[]) i", place.prefix);
        Arc::new(Sink { insert, takes, says: Box::new(says), calls: Mutex::default() })
    }

    fn calls(&self) -> Vec<Vec<(String, u32)>> {
        self.calls.lock().unwrap().clone()
    }

    fn sizes(&self) -> Vec<usize> {
        self.calls().iter().map(Vec::len).collect()
    }

    /// Returns the sizes of the calls that this message was in, and the attempts at it before.
    fn calls_of(&self, id: &str) -> Vec<(usize, u32)> {
        let of_it = |call: &Vec<(String, u32)>| Some((call.len(), call.iter().find(|(other, _)| other == id)?.1));
        self.calls().iter().filter_map(of_it).collect()
    }

    /// Records a call. Returns its answer, and the ids that have rows.
    pub fn called(&self, messages: &[&Message]) -> (Answer, Vec<String>) {
        let call: Vec<_> = messages.iter().map(|message| (text(&message.id), message.attempts)).collect();
        let ids: Vec<String> = call.iter().map(|(id, _)| id.clone()).collect();
        self.calls.lock().unwrap().push(call);
        let answer = (self.says)(&ids);
        let rows = match &answer {
            Ok(each) if each.len() == ids.len() => {
                ids.into_iter().zip(each).filter(|(_, answer)| answer.is_ok()).map(|(id, _)| id).collect()
            }
            _ => ids,
        };
        (answer, rows)
    }
}

impl BatchHandler for Sink {
    async fn handle(&self, tx: &mut Transaction<'_>, messages: &[&Message]) -> Result<Answers, BoxError> {
        let (answer, rows) = self.called(messages);
        tx.execute(&self.insert, &[&rows]).await?;
        tokio::time::sleep(self.takes).await;
        let poison = rows.iter().find_map(|id| id.strip_prefix("poison: "));
        match poison {
            Some("hangs") => pending().await,
            Some("is terminated") => tx.batch_execute("SELECT pg_terminate_backend(pg_backend_pid())").await?,
            // An error that it ignores: nothing can be committed any more.
            Some("is careless") => drop(tx.batch_execute("SELECT 1 / 0").await),
            Some("panics") => panic!("oh"),
            _ => {}
        }
        Ok(answer?.into())
    }
}

pub fn all_done(ids: &[String]) -> Answer {
    Ok(ids.iter().map(|_| Ok(())).collect())
}

const ROWS: &str = "SELECT count(*) FROM {p}_rows";
const LEFT: &str = "SELECT count(*) FROM {p}_inbox WHERE dead_at IS NULL";
const TWICE: &str = "SELECT count(*) - count(DISTINCT id) FROM {p}_rows";

async fn run(place: &Place, client: &Client, worker: &Worker, sink: &Arc<Sink>) {
    let done = until("nothing is left", async || place.count(client, LEFT).await == 0);
    worker.run_batches(Arc::clone(sink), done).await.unwrap();
}

#[test]
fn a_batch_is_one_transaction_with_as_many_messages_as_it_may_have() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for n in 0..25 {
            let id = n.to_string();
            let message = NewMessage::new(&id, "");
            let message = if n < 5 { message.kind("reading") } else { message };
            let _ = place.receive(&mut client, "c", message).await;
        }
        let sink = Sink::new(&place, &client, Duration::ZERO, all_done).await;
        let worker = place.worker("c").concurrency(1).unwrap().handler_batch(10, ms(50)).unwrap();
        run(&place, &client, &worker, &sink).await;
        assert_eq!(sink.sizes(), [10, 10, 5]);
        assert_eq!(place.count(&client, "SELECT count(DISTINCT tx) FROM {p}_rows").await, 3);
        assert_eq!((place.count(&client, ROWS).await, place.count(&client, TWICE).await), (25, 0));
        let written = "SELECT count(*) FROM {p}_handled WHERE kind = 'reading' AND attempts = 1";
        assert_eq!(place.count(&client, written).await, 5);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_handled").await, 5);
        let stats = worker.stats();
        assert_eq!((stats.claimed, stats.done, stats.failed, stats.released), (25, 25, 0, 0), "{stats:?}");
        // One alone is handled as soon as it has waited.
        let _ = place.receive(&mut client, "c", NewMessage::new("alone", "")).await;
        run(&place, &client, &worker, &sink).await;
        assert_eq!(sink.sizes()[3..], [1]);
        let never = worker.lease(ms(100)).unwrap().handler_batch(10, ms(101)).unwrap();
        let error = never.run_batches(Arc::clone(&sink), pending()).await.unwrap_err();
        assert_eq!(error.kind(), hapax_store::ErrorKind::Misconfigured, "{error}");
    });
}

#[test]
fn poison_is_found_by_halves_and_costs_the_others_no_attempt() {
    for (poison, error) in [
        ("poison: fails", "poison: fails"),
        ("poison: hangs", "it took longer than"),
        ("poison: panics", "it panicked: oh"),
        ("poison: is terminated", "terminating connection"),
        ("poison: is careless", "transaction is aborted"),
    ] {
        Place::run(async |place| {
            let mut client = place.client().await;
            let ids = (0..8).map(|n| if n == 5 { poison.to_owned() } else { n.to_string() });
            for id in ids {
                let _ = place.receive(&mut client, "c", NewMessage::new(&id, "").key(&id)).await;
            }
            let fails = |ids: &[String]| {
                let poison = ids.iter().find(|id| *id == "poison: fails");
                poison.map_or_else(|| all_done(ids), |poison| Err(poison.clone().into()))
            };
            let sink = Sink::new(&place, &client, Duration::ZERO, fails).await;
            // A lease that is over before an attempt is settled is one attempt more.
            let lease = ms(if poison == "poison: hangs" { 1_500 } else { 30_000 });
            let worker = place.worker("c").lease(lease).unwrap().retry(soon(Some(2))).longest_outage(Duration::ZERO);
            let worker = worker.handler_batch(8, ms(100)).unwrap();
            run(&place, &client, &worker, &sink).await;
            assert_eq!((place.count(&client, ROWS).await, place.count(&client, TWICE).await), (7, 0), "{poison}");
            assert_eq!(sink.calls_of(poison), [(8, 0), (4, 0), (2, 0), (1, 0), (1, 1)], "{poison}");
            assert_eq!(sink.sizes(), [8, 4, 4, 2, 1, 1, 2, 1], "{poison}: {:?}", sink.calls());
            let attempts = sink.calls().concat().iter().filter(|(id, _)| id != poison).map(|(_, before)| *before).max();
            assert_eq!(attempts, Some(0), "{poison}");
            let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
            assert_eq!((letters.len(), letters[0].message.attempts), (1, 2), "{letters:?}");
            assert!(text(&letters[0].message.id) == poison && letters[0].error.contains(error), "{letters:?}");
        });
    }
}

#[test]
fn each_message_may_have_an_answer_of_its_own() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for id in ["gives up", "fails", "later", "waits", "1", "2"] {
            let _ = place.receive(&mut client, "c", NewMessage::new(id, "")).await;
        }
        let later = Mutex::new(3);
        let sink = Sink::new(&place, &client, Duration::ZERO, move |ids| {
            let mut turn = later.lock().unwrap();
            *turn -= i32::from(ids.iter().any(|id| id == "later"));
            let answer = |id: &String| match id.as_str() {
                "gives up" => Err(GiveUp::because("hopeless").into()),
                "fails" => Err("no".into()),
                "later" if *turn > 0 => Err(Later::because("away").after(ms(20)).into()),
                "waits" if *turn > 0 => Err(Later::because("away").after(ms(20)).into()),
                _ => Ok(()),
            };
            Ok(ids.iter().map(answer).collect())
        });
        let sink = sink.await;
        let worker = place.worker("c").retry(soon(Some(3))).handler_batch(6, ms(100)).unwrap();
        run(&place, &client, &worker, &sink).await;
        assert_eq!((place.count(&client, ROWS).await, place.count(&client, TWICE).await), (4, 0));
        let attempts = |id: &str| sink.calls_of(id).iter().map(|(_, before)| *before).collect::<Vec<_>>();
        assert_eq!(["gives up", "fails", "1"].map(attempts), [vec![0], vec![0, 1, 2], vec![0]]);
        assert_eq!(["later", "waits"].map(attempts), [vec![0; 3], vec![0; 3]], "{:?}", sink.calls());
        assert!(sink.calls_of("fails")[1..].iter().all(|(size, _)| *size == 1), "what has failed is alone");
        assert!(sink.calls_of("later").iter().all(|(size, _)| *size > 1), "what waits is not: {:?}", sink.calls());
        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        let letters: Vec<_> =
            letters.iter().map(|it| (text(&it.message.id), &*it.error, it.message.attempts)).collect();
        assert_eq!(letters, [("gives up".into(), "hopeless", 1), ("fails".into(), "no", 3)]);
        let stats = worker.stats();
        assert_eq!((stats.done, stats.failed, stats.dead, stats.later), (4, 4, 2, 4), "{stats:?}");
    });
}

/// Checks that nothing of a batch is committed of which nothing is done, and that a wrong number of
/// answers is a failure of the batch.
#[test]
fn what_has_failed_as_a_whole_leaves_nothing() {
    struct Careless(Arc<Sink>);

    impl BatchHandler for Careless {
        async fn handle(&self, tx: &mut Transaction<'_>, messages: &[&Message]) -> Result<Answers, BoxError> {
            let (answer, _) = self.0.called(messages);
            let ids: Vec<String> = messages.iter().map(|message| text(&message.id)).collect();
            tx.execute(&self.0.insert, &[&ids]).await?;
            Ok(answer?.into())
        }
    }

    Place::run(async |place| {
        let mut client = place.client().await;
        for id in ["a", "b", "c"] {
            let _ = place.receive(&mut client, "c", NewMessage::new(id, "")).await;
        }
        let sink = Sink::new(&place, &client, Duration::ZERO, |ids| match ids.len() {
            1 => Ok(vec![Err("no".into())]),
            _ => all_done(&ids[1..]),
        });
        let handler = Arc::new(Careless(sink.await));
        let worker = place.worker("c").retry(soon(Some(1))).handler_batch(3, ms(100)).unwrap();
        let done = until("nothing is left", async || place.count(&client, LEFT).await == 0);
        worker.run_batches(Arc::clone(&handler), done).await.unwrap();
        assert_eq!((handler.0.sizes(), place.count(&client, ROWS).await), (vec![3, 2, 1, 1, 1], 0));
        assert_eq!(worker.stats().dead, 3);
    });
}

/// Checks at the beginning of each call how long the leases of all messages last, also of those
/// whose half has not had its turn.
#[test]
fn leases_of_all_halves_are_renewed() {
    const LEASE: Duration = Duration::from_secs(2);

    struct Looks(Arc<Sink>, String, Mutex<Vec<f64>>);

    impl BatchHandler for Looks {
        async fn handle(&self, tx: &mut Transaction<'_>, messages: &[&Message]) -> Result<Answers, BoxError> {
            let left: f64 = tx.query_one(&self.1, &[]).await?.get(0);
            self.2.lock().unwrap().push(left);
            self.0.handle(tx, messages).await
        }
    }

    Place::run(async |place| {
        let mut client = place.client().await;
        for (id, key) in [("1", Some("a")), ("2", None), ("3", Some("b")), ("poison", None)] {
            let message = NewMessage::new(id, "");
            let _ = place.receive(&mut client, "c", key.map_or(message, |key| message.key(key))).await;
        }
        let fails = |ids: &[String]| if ids.contains(&"poison".into()) { Err("no".into()) } else { all_done(ids) };
        let sink = Sink::new(&place, &client, LEASE / 3, fails).await;
        let left = "SELECT extract(epoch FROM least((SELECT min(c.until) FROM {p}_inbox_claims c), \
             (SELECT min(k.due_at) FROM {p}_inbox_keys k JOIN {p}_inbox m ON m.key = k.key)) - clock_timestamp())::float8";
        let looks = Arc::new(Looks(sink, left.replace("{p}", &place.prefix), Mutex::default()));
        let worker = place.worker("c").lease(LEASE).unwrap().retry(soon(Some(1))).handler_batch(4, ms(500)).unwrap();
        let done = until("nothing is left", async || place.count(&client, LEFT).await == 0);
        worker.run_batches(Arc::clone(&looks), done).await.unwrap();
        let left = looks.2.lock().unwrap().clone();
        assert!(left.len() >= 5 && left.iter().all(|left| *left >= LEASE.as_secs_f64()), "{left:?}");
        assert_eq!((worker.stats().lost, place.count(&client, ROWS).await), (0, 3));
    });
}

#[test]
fn what_somebody_has_locked_is_left_out_of_its_batch() {
    Place::run(async |place| {
        let (mut client, operator) = (place.client().await, place.client().await);
        for id in ["a", "b", "c"] {
            let _ = place.receive(&mut client, "c", NewMessage::new(id, "").key(id)).await;
        }
        place.execute(&operator, "BEGIN; SELECT FROM {p}_inbox WHERE id = 'b' FOR UPDATE").await;
        let sink = Sink::new(&place, &client, Duration::ZERO, all_done).await;
        let worker = place.worker("c").handler_batch(3, ms(100)).unwrap();
        let done = async {
            until("the others are handled", async || place.count(&client, ROWS).await == 2).await;
            operator.batch_execute("COMMIT").await.unwrap();
            until("nothing is left", async || place.count(&client, LEFT).await == 0).await;
        };
        worker.run_batches(Arc::clone(&sink), done).await.unwrap();
        assert_eq!((sink.sizes(), place.count(&client, TWICE).await), (vec![2, 1], 0), "{:?}", sink.calls());
        assert!(worker.stats().lost >= 1 && worker.stats().failed == 0, "{:?}", worker.stats());
    });
}

#[test]
fn each_message_of_a_worker_that_died_is_handled_by_itself() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for (id, key) in [("1", None), ("2", None), ("3", Some("k")), ("4", Some("l")), ("5", Some("l"))] {
            let message = NewMessage::new(id, "");
            let _ = place.receive(&mut client, "c", key.map_or(message, |key| message.key(key))).await;
        }
        let never = Sink::new(&place, &client, HOUR, all_done).await;
        let worker = place.worker("c").handler_batch(4, ms(100)).unwrap();
        tokio::select! {
            ended = worker.run_batches(Arc::clone(&never), pending()) => panic!("it never ends: {ended:?}"),
            () = until("it has begun", async || !never.sizes().is_empty()) => {}
        }
        assert_eq!(never.sizes(), [4], "5 is behind 4");
        until("its locks are gone", async || {
            let locked =
                "SELECT count(*) FROM {p}_inbox WHERE id NOT IN (SELECT id FROM {p}_inbox FOR UPDATE SKIP LOCKED)";
            place.count(&client, locked).await == 0
        })
        .await;
        release_all(&place, &client).await;
        let sink = Sink::new(&place, &client, Duration::ZERO, all_done).await;
        run(&place, &client, &worker, &sink).await;
        assert_eq!((sink.sizes(), place.count(&client, ROWS).await), (vec![1; 5], 5), "{:?}", sink.calls());
    });
}

/// Checks that messages which a handler refuses are put back as they were, though they were removed
/// before it began; and that nobody takes up what is another claim's.
#[test]
fn what_is_put_back_is_as_it_was() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for id in ["1", "2", "3"] {
            let message = NewMessage::new(id, "payload").headers(&[("a", "b")]).expires_at(SystemTime::now() + HOUR);
            let _ = place.receive(&mut client, "c", if id == "3" { message.key("k") } else { message }).await;
        }
        let rows = format!("SELECT string_agg(m::text, ' ' ORDER BY position) FROM {}_inbox m", place.prefix);
        let rows = async || client.query_one(&rows, &[]).await.unwrap().get::<_, Option<String>>(0);
        let take = "SELECT FROM {p}_inbox_take('{c}', '{0}', '{0}', '{}', '{}', false, 9, 0, 1000, 3e7, 77)";
        place.execute(&client, take).await;
        let before = rows().await;
        let hold = |keys: &str, tokens: &str| {
            let (p, positions) = (&place.prefix, "'{1,2,3}', '{0,0,0}'");
            format!(
                "SELECT cardinality({p}_inbox_hold('c', '{keys}', '{tokens}', {positions}, 30000, true)) - 2::bigint"
            )
        };
        client.batch_execute("BEGIN").await.unwrap();
        for (tokens, held) in [("{78,78,78}", 0), ("{77,78,78}", 1), ("{78,77,77}", 2)] {
            client.batch_execute("SAVEPOINT a").await.unwrap();
            assert_eq!(place.count(&client, &hold("{NULL,NULL,k}", tokens)).await, held);
            client.batch_execute("ROLLBACK TO a").await.unwrap();
        }
        assert_eq!(place.count(&client, &hold("{NULL,NULL,k}", "{77,77,77}")).await, 3);
        assert_eq!(rows().await, None, "removed");
        place.execute(&client, "SELECT {p}_inbox_put_back('{1,2,3}')").await;
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(rows().await, before);
    });
}
