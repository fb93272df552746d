//! A pooler of transactions in between: each transaction may be on another connection of the
//! server, and anything left on one is found by its next user.

use crate::pooler::{Pooler, left_behind, settings_of};
use crate::*;

/// The connections of the pooler to the server: fewer than the clients that ask at a time.
const CONNECTIONS: usize = 4;
const MESSAGES: usize = 60;

/// A handler that has its effect, and enqueues a message about it. Two messages hang: one in the
/// database, one elsewhere.
struct Effects {
    tables: Tables,
    prefix: String,
}

impl Handler for Effects {
    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        let id = std::str::from_utf8(&message.id)?;
        tx.batch_execute(&format!("INSERT INTO {}_effects VALUES ('{id}')", self.prefix)).await?;
        match id {
            "hangs" => tokio::time::sleep(HOUR).await,
            "hangs in the database" => tx.batch_execute("SELECT pg_sleep(3600)").await?,
            _ => outbox::enqueue(tx, &self.tables, "t", NewMessage::new(id, "")).await.map(|_| ())?,
        }
        Ok(())
    }
}

/// Runs everything through the pooler: messages come in twice, two workers and a relay do their
/// work, and a partition is begun and dropped.
fn all_of_it(server_settings: &[&str]) {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let Some(pooler) = Pooler::start(&server, CONNECTIONS, server_settings) else { return };
    Place::run_at(Arc::new(server), async |place| {
        let direct = place.client().await;
        let fresh = client(&place.server.tcp_address("postgres")).await;
        // With the language come settings of its own.
        fresh.batch_execute("DO $$ BEGIN END $$").await.unwrap();
        let untouched = settings_of(&fresh).await;
        place.execute(&direct, "CREATE TABLE {p}_effects (id text)").await;
        let mut caller = client(&pooler.address()).await;
        let ids = (0..MESSAGES).map(|n| n.to_string()).chain(["hangs", "hangs in the database"].map(str::to_owned));
        for (n, id) in ids.enumerate() {
            let key = format!("{}", n % 16);
            let message = NewMessage::new(&id, "");
            let message = if n % 3 == 0 || n >= MESSAGES { message } else { message.key(&key) };
            assert!(place.receive(&mut caller, "c", message).await.is_first());
            assert!(!place.receive(&mut caller, "c", message).await.is_first());
        }
        let mut tx = caller.transaction().await.unwrap();
        assert!(!inbox::once(&mut tx, &place.tables, "c", "1").await.unwrap().is_first());
        assert!(inbox::once(&mut tx, &place.tables, "d", "1").await.unwrap().is_first());
        for (id, first) in [("marked", true), ("marked", false), ("1", false)] {
            let mark = inbox::NewMark::new(id).subject("s").processor("p");
            assert_eq!(inbox::mark(&mut tx, &place.tables, "d", mark).await.unwrap().is_first(), first);
        }
        tx.commit().await.unwrap();

        let handler = Arc::new(Effects { tables: place.tables.clone(), prefix: place.prefix.clone() });
        let options = options(&pooler.address());
        let worker = || {
            let worker = Worker::new(options.clone(), place.tables.clone(), "c").unwrap().poll(ms(20)).unwrap();
            worker.retry(soon(Some(1))).lease(ms(500)).unwrap().concurrency(3).unwrap().keep(Keep::Messages)
        };
        let relay = Relay::new(options.clone(), place.tables.clone()).poll(ms(20)).unwrap();
        let stop = tokio::sync::watch::channel(false);
        let stopped = || {
            let mut stopped = stop.1.clone();
            async move { drop(stopped.wait_for(|stop| *stop).await) }
        };
        let left = "SELECT (SELECT count(*) FROM {p}_inbox WHERE dead_at IS NULL) + (SELECT count(*) FROM {p}_outbox)";
        let (one, other) = (worker(), worker());
        let (a, b, c, ()) = tokio::join!(
            one.run(Arc::clone(&handler), stopped()),
            other.run(Arc::clone(&handler), stopped()),
            relay.run(Arc::new(Nothing), stopped()),
            async {
                until("all is done", async || place.count(&direct, left).await == 0).await;
                stop.0.send(true).unwrap();
            }
        );
        a.and(b).and(c).unwrap();
        let effects = "SELECT count(*) * 1000 + count(DISTINCT id) FROM {p}_effects";
        assert_eq!(place.count(&direct, effects).await, 1_000 * MESSAGES as i64 + MESSAGES as i64);
        let letters = inbox::dead_letters(&direct, &place.tables, Some("c"), 0, 10).await.unwrap();
        let errors: Vec<&str> = letters.iter().map(|letter| letter.error.as_str()).collect();
        assert_eq!(errors, ["it took longer than 500ms"; 2], "nobody else's statement was cancelled");

        let query = inbox::HandledQuery::all().limit(1_000);
        let handled = inbox::handled(&caller, &place.tables, query).await.unwrap();
        assert_eq!(handled.len(), MESSAGES + 1);
        let again = inbox::Finished::Ids("c", &[b"1".to_vec()]);
        assert_eq!(inbox::requeue_handled(&caller, &place.tables, again).await.unwrap(), 1);
        let mut tx = caller.transaction().await.unwrap();
        assert_eq!(inbox::forget(&mut tx, &place.tables, "d", &["1", "none"]).await.unwrap(), 1);
        tx.commit().await.unwrap();

        place.execute(&direct, "UPDATE {p}_mark_buckets SET opened_at = opened_at - interval '2 hours'").await;
        let cleanup = Retention::new(HOUR, HOUR).unwrap().expire(&caller, &place.tables).await.unwrap();
        assert_eq!(cleanup.begun, 1);
        drop(caller);
        assert_eq!(left_behind(&pooler, CONNECTIONS, &untouched).await, Vec::<String>::new());
        #[cfg(feature = "sqlx")]
        with_sqlx(&place, &pooler, &untouched).await;
    });
}

#[test]
fn a_pooler_that_refuses_what_it_does_not_know() {
    all_of_it(&[]);
}

#[test]
fn a_pooler_that_ignores_what_it_does_not_know() {
    all_of_it(&["ignore_startup_parameters = options"]);
}

/// Runs the same worker with a pool of sqlx, which is told to leave no statement behind.
#[cfg(feature = "sqlx")]
async fn with_sqlx(place: &Place, pooler: &Pooler, untouched: &std::collections::BTreeMap<String, String>) {
    struct Counts(AtomicU64);

    impl SqlxHandler for Counts {
        async fn handle(
            &self,
            tx: &mut ::sqlx::Transaction<'_, ::sqlx::Postgres>,
            _: &Message,
        ) -> Result<(), BoxError> {
            ::sqlx::query("SELECT 1").persistent(false).execute(&mut **tx).await?;
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    let mut caller = place.client().await;
    for id in ["1", "2", "3"] {
        let _ = place.receive(&mut caller, "sqlx", NewMessage::new(id, "").key("k")).await;
    }
    let pool = crate::connections::sqlx::pool(pooler.port(), "postgres", 3).await;
    let worker = Worker::new(pool, place.tables.clone(), "sqlx").unwrap().poll(ms(20)).unwrap();
    let handler = Arc::new(Counts(AtomicU64::new(0)));
    let left = "SELECT count(*) FROM {p}_inbox WHERE name = 'sqlx'";
    let done = until("all is handled", async || place.count(&caller, left).await == 0);
    worker.run_sqlx(Arc::clone(&handler), done).await.unwrap();
    assert_eq!(handler.0.load(Ordering::Relaxed), 3);
    drop(worker);
    let untouched_by_sqlx =
        |left: &String| !["DateStyle", "TimeZone", "extra_float_digits"].iter().any(|name| left.starts_with(name));
    let left: Vec<String> =
        left_behind(pooler, CONNECTIONS, untouched).await.into_iter().filter(untouched_by_sqlx).collect();
    assert_eq!(left, Vec::<String>::new());
}
