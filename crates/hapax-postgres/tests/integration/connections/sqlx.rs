//! The same cases in transactions of sqlx.

use crate::*;
use ::sqlx::postgres::PgConnectOptions;
use ::sqlx::{Connection as _, Executor as _, PgConnection};
use hapax_store::ErrorKind;

#[test]
fn sqlx_and_tokio_postgres_say_the_same() {
    Place::run(async |place| {
        let mut other = place.client().await;
        place.execute(&other, "CREATE TABLE {p}_effects (id text)").await;
        let directory = place.server.data().parent().unwrap().to_owned();
        let options = PgConnectOptions::new_without_pgpass().socket(directory).port(place.server.port);
        let mut sqlx = PgConnection::connect_with(&options.username("postgres").database("postgres")).await.unwrap();
        let message = NewMessage::new("m", "payload").key("k");

        for commits in [false, true] {
            let mut tx = sqlx.begin().await.unwrap();
            assert!(inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap().is_first());
            let effect = ::sqlx::AssertSqlSafe(format!("INSERT INTO {}_effects VALUES ('m')", place.prefix));
            tx.execute(::sqlx::raw_sql(effect)).await.unwrap();
            assert!(inbox::receive(&mut tx, &place.tables, "d", message).await.unwrap().is_first());
            assert!(!inbox::receive(&mut tx, &place.tables, "d", message).await.unwrap().is_first());
            outbox::enqueue(&mut tx, &place.tables, "t", message).await.unwrap();
            if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        }
        assert_eq!(place.count(&other, "SELECT count(*) FROM {p}_effects").await, 1);
        let stored = "SELECT (SELECT count(*) FROM {p}_inbox WHERE payload = 'payload' AND key = 'k') * 10 \
             + (SELECT count(*) FROM {p}_outbox WHERE payload = 'payload' AND key = 'k')";
        assert_eq!(place.count(&other, stored).await, 11);

        // What one has marked is a duplicate to the other.
        let mut tx = other.transaction().await.unwrap();
        let Seen::Duplicate { first_at } = inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap() else {
            panic!()
        };
        assert!(inbox::once(&mut tx, &place.tables, "c", "n").await.unwrap().is_first());

        let mut late = sqlx.begin().await.unwrap();
        assert_eq!(inbox::once(&mut late, &place.tables, "c", "m").await.unwrap(), Seen::Duplicate { first_at });
        late.execute("SET LOCAL lock_timeout = '20ms'").await.unwrap();
        let error = inbox::once(&mut late, &place.tables, "c", "n").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    });
}

/// Creates the pool of a program that connects by TCP, perhaps through a pooler, for which these
/// options are.
pub async fn pool(port: u16, database: &str, connections: u32) -> ::sqlx::PgPool {
    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port).username("postgres");
    let options = options.database(database).statement_cache_capacity(0).extra_float_digits(None);
    ::sqlx::postgres::PgPoolOptions::new().max_connections(connections).connect_lazy_with(options)
}

/// A handler that does what its message's name says.
struct Ill {
    insert: String,
}

impl SqlxHandler for Ill {
    async fn handle(
        &self,
        tx: &mut ::sqlx::Transaction<'_, ::sqlx::Postgres>,
        message: &Message,
    ) -> Result<(), BoxError> {
        let insert = || ::sqlx::query(::sqlx::AssertSqlSafe(self.insert.clone())).bind(message.id.clone());
        insert().execute(&mut **tx).await?;
        match message.id.as_slice() {
            b"fails" => Err("no".into()),
            b"gives up" => Err(GiveUp::because("never").into()),
            b"hangs" => std::future::pending().await,
            b"hangs in the database" => Ok(tx.execute("SELECT pg_sleep(3600)").await.map(drop)?),
            b"is terminated" => Ok(tx.execute("SELECT pg_terminate_backend(pg_backend_pid())").await.map(drop)?),
            b"careless" => {
                let _ = insert().execute(&mut **tx).await;
                Ok(())
            }
            b"panics" => panic!("oh"),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_worker_with_a_pool_of_sqlx_keeps_its_word() {
    Place::run(async |place| {
        let mut client = place.client().await;
        place.execute(&client, "CREATE TABLE {p}_effects (id bytea PRIMARY KEY)").await;
        let bad = ["fails", "gives up", "hangs", "hangs in the database", "is terminated", "careless", "panics"];
        for id in bad.into_iter().chain(["1", "2", "3", "4"]) {
            let _ = place.receive(&mut client, "c", NewMessage::new(id, "").key(id)).await;
        }
        let handler = Arc::new(Ill { insert: format!("INSERT INTO {}_effects VALUES ($1)", place.prefix) });
        let worker = Worker::new(pool(place.server.port, "postgres", 5).await, place.tables.clone(), "c").unwrap();
        let worker = worker.poll(HOUR).unwrap().lease(ms(1_500)).unwrap().retry(soon(Some(1)));
        let worker = worker.longest_outage(Duration::ZERO);
        let left = "SELECT count(*) FROM {p}_inbox WHERE dead_at IS NULL";
        let done = async {
            until("all is done", async || place.count(&client, left).await == 0).await;
            // By now it sleeps, so that only a notification can tell.
            tokio::time::sleep(ms(2_600)).await;
            let mut other = place.client().await;
            let _ = place.receive(&mut other, "c", NewMessage::new("5", "")).await;
            until("what comes later is handled", async || place.count(&client, left).await == 0).await;
        };
        worker.run_sqlx(Arc::clone(&handler), done).await.unwrap();
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_effects").await, 5);
        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        let errors = ["no", "never", "longer than 1.5s", "longer than 1.5s", "terminat", "is aborted", "panicked: oh"];
        for ((letter, id), error) in letters.iter().zip(bad).zip(errors) {
            assert!(letter.message.id == id.as_bytes() && letter.error.contains(error), "{letter:?}: {error}");
        }
        assert_eq!(letters.len(), bad.len());
        until("nothing is at work", async || {
            place.count(&client, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)%' AND state = 'active' AND pid <> pg_backend_pid()").await == 0
        })
        .await;

        // A handler that does not fit the pool is an error.
        let other = place.worker("c").step_sqlx(&handler).await;
        let _ = place.receive(&mut client, "c", NewMessage::new("6", "")).await;
        assert_eq!(other.unwrap(), 0, "nothing to handle");
        let error = place.worker("c").step_sqlx(&handler).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains("handle with run"), "{error}");
    });
}

/// A sink that writes a row for each message that does not fail.
struct Rows(String);

impl SqlxBatchHandler for Rows {
    async fn handle(
        &self,
        tx: &mut ::sqlx::Transaction<'_, ::sqlx::Postgres>,
        messages: &[&Message],
    ) -> Result<Answers, BoxError> {
        let is_good = |message: &Message| message.id != b"fails";
        let good = messages.iter().filter(|message| is_good(message));
        let rows: Vec<&[u8]> = good.map(|message| &*message.id).collect();
        ::sqlx::query(::sqlx::AssertSqlSafe(self.0.clone())).bind(rows).execute(&mut **tx).await?;
        if messages.iter().any(|message| message.id == b"poison") {
            return Err("poison".into());
        }
        let answer = |message: &&Message| if is_good(message) { Ok(()) } else { Err("no") };
        Ok(messages.iter().map(answer).collect::<Vec<_>>().into())
    }
}

#[test]
fn batches_with_a_pool_of_sqlx() {
    Place::run(async |place| {
        let mut client = place.client().await;
        place.execute(&client, "CREATE TABLE {p}_rows (id bytea)").await;
        for id in ["1", "2", "fails", "3", "poison", "4"] {
            let _ = place.receive(&mut client, "c", NewMessage::new(id, "")).await;
        }
        let worker = Worker::new(pool(place.server.port, "postgres", 4).await, place.tables.clone(), "c").unwrap();
        let worker = worker.retry(soon(Some(1))).handler_batch(6, ms(50)).unwrap();
        let rows = Arc::new(Rows(format!("INSERT INTO {}_rows SELECT unnest($1::bytea[])", place.prefix)));
        let left = "SELECT count(*) FROM {p}_inbox WHERE dead_at IS NULL";
        let done = until("all is done", async || place.count(&client, left).await == 0);
        worker.run_batches_sqlx(rows, done).await.unwrap();
        let sunk = "SELECT string_agg(convert_from(id, 'UTF8'), ' ' ORDER BY id) FROM {p}_rows";
        assert_eq!(place.text(&client, sunk).await, "1 2 3 4");
        assert_eq!((worker.stats().done, worker.stats().dead), (4, 2));
    });
}

#[test]
fn a_relay_with_a_pool_of_sqlx() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for id in ["1", "2", "3"] {
            place.enqueue(&mut client, "t", NewMessage::new(id, "").key("k")).await;
        }
        let relay = Relay::new(pool(place.server.port, "postgres", 4).await, place.tables.clone());
        let keeps = Arc::new(Keeps::default());
        place.publish_all(&client, relay, &keeps).await;
        assert_eq!(keeps.taken().len(), 3);
    });
}

#[test]
fn a_pool_of_sqlx_and_a_client_are_told_the_same() {
    Place::run(async |place| {
        let (pool, mut client) = (pool(place.server.port, "postgres", 1).await, place.client().await);
        let others = Tables::new("public", &format!("{}_x", place.prefix)).unwrap();
        for _ in 0..2 {
            others.migrate(&pool).await.unwrap();
        }
        others.migrate(&client).await.unwrap();
        // What fails half-way leaves nothing open on the only connection.
        place.execute(&client, "CREATE TABLE {p}_y_marks (id text)").await;
        let error = Tables::new("public", &format!("{}_y", place.prefix)).unwrap().migrate(&pool).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");

        let tables = &place.tables;
        for id in ["1", "2"] {
            assert!(place.receive(&mut client, "c", NewMessage::new(id, "").subject("s")).await.is_first());
        }
        let worker = place.worker("c").keep(Keep::Messages);
        place.handle_all(&client, worker, &Arc::new(GivesUp)).await;
        let letters = inbox::dead_letters(&pool, tables, Some("c"), 0, 9).await.unwrap();
        assert_eq!(letters, inbox::dead_letters(&client, tables, Some("c"), 0, 9).await.unwrap());
        assert_eq!(inbox::requeue(&pool, tables, Letters::These(&letters[..1])).await.unwrap(), 1);
        assert_eq!(inbox::discard(&pool, tables, Letters::Of(Some("c"))).await.unwrap(), 1);
        let backlog = inbox::backlog(&pool, tables, None).await.unwrap();
        assert_eq!((backlog.waiting, backlog.dead), (1, 0));
        place.handle_all(&client, place.worker("c").keep(Keep::Messages), &Arc::new(Nothing)).await;
        let query = inbox::HandledQuery::of_subject("s");
        let handled = inbox::handled(&pool, tables, query).await.unwrap();
        assert_eq!(handled, inbox::handled(&client, tables, query).await.unwrap());
        assert_eq!(inbox::requeue_handled(&pool, tables, inbox::Finished::These(&handled)).await.unwrap(), 1);

        let retention = Retention::new(HOUR, HOUR).unwrap();
        assert!(!retention.expire(&pool, tables).await.unwrap().put_off);
        assert_eq!(outbox::expire_captured(&pool, tables, HOUR).await.unwrap(), 0);
    });
}
