//! Handlers that hang, that lose their connection, and that panic: each is its own message's
//! failure, and no other message waits for it.

use crate::*;
use std::sync::Mutex;

const GOOD: usize = 12;

/// A handler that does what its message's name says.
#[derive(Default)]
struct Ill(Mutex<Vec<String>>);

impl Ill {
    fn good(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Handler for Ill {
    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        let name = String::from_utf8(message.id.clone()).unwrap();
        match name.split('/').next().unwrap() {
            "hangs" => tokio::time::sleep(HOUR).await,
            "hangs in the database" => tx.batch_execute("SELECT pg_sleep(3600)").await?,
            "is terminated" => tx.batch_execute("SELECT pg_terminate_backend(pg_backend_pid())").await?,
            "is cancelled" => tx.batch_execute("SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(1)").await?,
            _ => self.0.lock().unwrap().push(name),
        }
        Ok(())
    }
}

async fn stored(place: &Place, ids: impl Iterator<Item = String>) -> Client {
    let mut client = place.client().await;
    for id in ids {
        let _ = place.receive(&mut client, "c", NewMessage::new(&id, "").key(&id)).await;
    }
    client
}

fn good() -> impl Iterator<Item = String> {
    (0..GOOD).map(|n| format!("good/{n}"))
}

async fn run<H: Handler>(worker: &Worker, handler: &Arc<H>, stop: impl Future<Output = ()>) {
    worker.run(Arc::clone(handler), stop).await.unwrap();
}

/// Checks that good messages are handled whatever is in front of them, also if that takes an hour;
/// and that the error of an ill one can be read.
fn goes_on_beside(ill: &'static str, error: &'static str) {
    Place::run_alone(async |place| {
        let client = stored(&place, std::iter::once(ill.to_owned()).chain(good())).await;
        let handler = Arc::new(Ill::default());
        // An outage would end it.
        let worker = |lease| place.worker("c").lease(lease).unwrap().longest_outage(Duration::ZERO);
        // While its lease lasts, nobody gives the ill one up: who waited for it would wait in vain.
        let patient = worker(HOUR);
        tokio::select! {
            () = run(&patient, &handler, std::future::pending()) => unreachable!("nobody stops it"),
            () = until("the good ones are handled", async || handler.good() == GOOD) => {}
        }
        crate::handling::workers::release_all(&place, &client).await;
        let kept = format!("SELECT count(*) FROM {{p}}_inbox WHERE attempts > 0 AND error LIKE '%{error}%'");
        run(&worker(ms(500)), &handler, async {
            until("the ill one has failed", async || place.count(&client, &kept).await == 1).await;
        })
        .await;
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_inbox").await, 1);
        let at_work =
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(3600)'";
        until("nothing is left at work", async || place.count(&client, at_work).await == 0).await;
    });
}

#[test]
fn one_that_hangs() {
    goes_on_beside("hangs", "it took longer than 500ms");
}

#[test]
fn one_that_hangs_in_the_database() {
    goes_on_beside("hangs in the database", "it took longer than 500ms");
}

#[test]
fn one_whose_connection_is_terminated() {
    goes_on_beside("is terminated", "terminating connection due to administrator command");
}

#[test]
fn one_whose_statement_is_cancelled() {
    goes_on_beside("is cancelled", "canceling statement due to user request");
}

/// Checks more hanging messages than are handled concurrently: each has its turn, and the good ones
/// behind them are handled.
#[test]
fn many_that_hang_are_no_outage() {
    Place::run(async |place| {
        let client = stored(&place, (0..30).map(|n| format!("hangs/{n}")).chain(good())).await;
        let worker = place.worker("c").lease(ms(200)).unwrap().longest_outage(ms(500));
        let worker = worker.retry(Retry::new(HOUR, HOUR).unwrap());
        let handler = Arc::new(Ill::default());
        // Where the machine stands still for longer than the lease, one is begun twice.
        let tried = "SELECT count(*) FROM {p}_inbox WHERE attempts > 0 AND error = 'it took longer than 200ms'";
        run(&worker, &handler, async {
            until("the good ones are handled", async || handler.good() == GOOD).await;
            until("all are tried", async || place.count(&client, tried).await == 30).await;
        })
        .await;
    });
}

/// Checks that quick messages, which are claimed before they can be begun, are given back while one
/// hangs in front of them, and not after a lease.
#[test]
fn what_was_claimed_behind_one_that_hangs_is_handled_elsewhere() {
    Place::run(async |place| {
        let ids = |part: std::ops::Range<usize>| part.map(|n| format!("good/{n}"));
        let mut client = place.client().await;
        for id in ids(0..20).chain(["hangs".to_owned()]).chain(ids(20..60)) {
            let _ = place.receive(&mut client, "c", NewMessage::new(&id, "")).await;
        }
        let worker = || place.worker("c").lease(HOUR).unwrap().concurrency(1).unwrap();
        let (handler, one, other) = (Arc::new(Ill::default()), worker(), worker());
        let run = |worker: Worker| {
            let handler = Arc::clone(&handler);
            async move { worker.run(handler, std::future::pending()).await }
        };
        tokio::select! {
            ended = run(one) => panic!("nobody stops it: {ended:?}"),
            ended = run(other) => panic!("nobody stops it: {ended:?}"),
            () = until("the good ones are handled", async || handler.good() == 60) => {}
        }
    });
}

/// Checks that a message's outcome cannot be settled while another transaction has its row, and
/// that its key is kept for it.
#[test]
fn an_outcome_that_cannot_be_said_yet_keeps_its_key() {
    Place::run(async |place| {
        let client = stored(&place, std::iter::once("m".to_owned())).await;
        place.execute(&client, "UPDATE {p}_inbox_keys SET token = 77, due_at = now() + interval '1 hour'").await;
        let settle = "SELECT count(*) FROM {p}_inbox_settle('{}', '{}', ARRAY(SELECT position FROM {p}_inbox), ARRAY[77::bigint], \
             ARRAY[1::bigint], ARRAY['no'], ARRAY[0::bigint], ARRAY[0::float8], \
             ARRAY['c'], ARRAY['m'::bytea], ARRAY[77::bigint], ARRAY[0::float8], '{}', 0)";
        let ours = "SELECT count(*) FROM {p}_inbox_keys WHERE token = 77";
        let said = "SELECT count(*) FROM {p}_inbox WHERE error = 'no' AND attempts = 1";
        let mut other = place.client().await;
        let tx = other.transaction().await.unwrap();
        place.execute(tx.client(), "SELECT FROM {p}_inbox FOR UPDATE").await;
        assert_eq!(place.count(&client, settle).await, 1, "to be said again");
        assert_eq!((place.count(&client, ours).await, place.count(&client, said).await), (1, 0));
        tx.rollback().await.unwrap();
        assert_eq!(place.count(&client, settle).await, 0);
        assert_eq!((place.count(&client, ours).await, place.count(&client, said).await), (0, 1));
    });
}

/// The number of a server's process comes back, after a failover at once. Here it is that of
/// another transaction when the time of a handler is over.
#[test]
fn a_cancellation_meets_no_other_transaction() {
    struct Goes(String);

    impl Handler for Goes {
        async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), BoxError> {
            Ok(tx.batch_execute(&self.0).await?)
        }
    }

    Place::run(async |place| {
        let client = stored(&place, std::iter::once("goes".to_owned())).await;
        place.execute(&client, "CREATE TABLE {p}_met (one int)").await;
        let sql = format!("COMMIT; BEGIN; SELECT pg_sleep(1); INSERT INTO {}_met VALUES (1); COMMIT", place.prefix);
        let worker = place.worker("c").lease(ms(200)).unwrap();
        let met = "SELECT count(*) FROM {p}_met";
        let is_over = until("its end", async || place.count(&client, met).await > 0);
        run(&worker, &Arc::new(Goes(sql)), is_over).await;
    });
}
