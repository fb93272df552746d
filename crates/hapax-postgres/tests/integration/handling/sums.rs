//! Amounts that batches add up, while handlers fail in each way, a worker is dropped and the server
//! is killed: each is added once, those of a key in order, and nothing but poison is put aside.

use crate::*;
use std::sync::Mutex;
use tokio_postgres::Transaction;

const KEYS: u64 = 7;

/// A ledger in the database, with a row for each amount, and their sum.
struct Ledger {
    insert: String,
    sum: String,
    random: Mutex<Random>,
}

impl Ledger {
    fn percent(&self) -> u64 {
        self.random.lock().unwrap().below(100)
    }
}

impl BatchHandler for Ledger {
    async fn handle(&self, tx: &mut Transaction<'_>, messages: &[&Message]) -> Result<Answers, BoxError> {
        // One that is no number is poison, and fails its batch.
        let parsed = messages.iter().map(|message| text(&message.payload).parse::<i64>().map_err(GiveUp::because));
        let amounts = parsed.collect::<Result<Vec<i64>, _>>()?;
        let is_partial = self.percent() < 20;
        let answer = |_: &i64| match self.percent() {
            0..20 if is_partial => Err(BoxError::from("this one fails")),
            20..40 if is_partial => Err(Later::because("this one waits").after(ms(2)).into()),
            _ => Ok(()),
        };
        let answers: Vec<Result<(), BoxError>> = amounts.iter().map(answer).collect();
        let done = || (0..amounts.len()).filter(|&at| answers[at].is_ok());
        let ids: Vec<&[u8]> = done().map(|at| &*messages[at].id).collect();
        let keys: Vec<Option<&[u8]>> = done().map(|at| messages[at].key.as_deref()).collect();
        let added: Vec<i64> = done().map(|at| amounts[at]).collect();
        tx.execute(&self.insert, &[&ids, &keys, &added]).await?;
        tx.execute(&self.sum, &[&added.iter().sum::<i64>()]).await?;
        match self.percent() {
            0..8 => Err("all of them fail".into()),
            8..12 => panic!("as it was told to"),
            12..15 => Err(Later::because("all of them wait").into()),
            15..18 => {
                tx.batch_execute("SELECT pg_terminate_backend(pg_backend_pid())").await?;
                Ok(().into())
            }
            _ => Ok(answers.into()),
        }
    }
}

/// Receives amounts, some of them no numbers. Returns the sum of the others, and how many are none.
async fn received(place: &Place, client: &mut Client, random: &mut Random, messages: u64) -> (i64, i64) {
    let (mut sum, mut poison) = (0, 0);
    let mut tx = client.transaction().await.unwrap();
    for n in 0..messages {
        let (amount, key) = (random.below(1_000) as i64, format!("{}", random.below(KEYS)));
        let payload = if random.percent(3) { "poison".to_owned() } else { amount.to_string() };
        if payload == "poison" {
            poison += 1
        } else {
            sum += amount
        }
        let id = format!("{n:08}");
        let message = NewMessage::new(&id, &payload);
        let message = if random.percent(60) { message.key(&key) } else { message };
        let _ = inbox::receive(&mut tx, &place.tables, "c", message).await.unwrap();
    }
    tx.commit().await.unwrap();
    (sum, poison)
}

#[test]
fn every_amount_is_added_once_whatever_fails_and_whoever_dies() {
    Place::run_alone(async |place| {
        let mut random = crate::random();
        let mut client = place.client().await;
        let tables = "CREATE TABLE {p}_amounts (n bigserial, id bytea, key bytea, amount bigint); \
             CREATE TABLE {p}_sums (sum bigint); INSERT INTO {p}_sums VALUES (0)";
        place.execute(&client, tables).await;
        let messages = long(300, 5_000);
        let (sum, poison) = received(&place, &mut client, &mut random, messages).await;
        let insert =
            "INSERT INTO {p}_amounts (id, key, amount) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[])";
        let (insert, added) = (insert.replace("{p}", &place.prefix), "UPDATE {p}_sums SET sum = sum + $1");
        let seed = Mutex::new(Random(random.below(u64::MAX)));
        let ledger = Arc::new(Ledger { insert, sum: added.replace("{p}", &place.prefix), random: seed });
        let mut worker = || {
            let worker = place.worker("c").lease(ms(1_000)).unwrap().concurrency(random.within(1, 3) as usize).unwrap();
            worker.handler_batch(random.within(1, 20) as usize, random.millis(0, 10)).unwrap()
        };
        let (one, other, mortal) = (worker(), worker(), worker());
        let dies_after = random.millis(5, 100);
        let stop = tokio::sync::watch::channel(false);
        let stopped = || {
            let mut stopped = stop.1.clone();
            async move { drop(stopped.wait_for(|stop| *stop).await) }
        };
        let dies = async {
            tokio::select! {
                ended = mortal.run_batches(Arc::clone(&ledger), std::future::pending()) => panic!("nobody stops it: {ended:?}"),
                () = tokio::time::sleep(dies_after) => {}
            }
        };
        let rows = "SELECT count(*) FROM {p}_amounts";
        let ends = async {
            until("a third is done", async || place.count(&client, rows).await > messages as i64 / 3).await;
            place.server.kill();
            place.server.launch();
            let client = place.client().await;
            let left = "SELECT count(*) FROM {p}_inbox WHERE dead_at IS NULL";
            until("nothing is left", async || place.count(&client, left).await == 0).await;
            stop.0.send(true).unwrap();
            client
        };
        let runs = (one.run_batches(Arc::clone(&ledger), stopped()), other.run_batches(Arc::clone(&ledger), stopped()));
        let (of_one, of_other, (), client) = tokio::join!(runs.0, runs.1, dies, ends);
        of_one.and(of_other).unwrap();

        assert_eq!(place.count(&client, rows).await, messages as i64 - poison);
        assert_eq!(place.count(&client, "SELECT count(DISTINCT id) FROM {p}_amounts").await, messages as i64 - poison);
        assert_eq!(place.count(&client, "SELECT sum(amount)::bigint FROM {p}_amounts").await, sum);
        assert_eq!(place.count(&client, "SELECT sum FROM {p}_sums").await, sum);
        let late = "SELECT count(*) FROM (SELECT id < lag(id) OVER (PARTITION BY key ORDER BY n) AS is_late \
             FROM {p}_amounts WHERE key IS NOT NULL) a WHERE is_late";
        assert_eq!(place.count(&client, late).await, 0, "those of a key are in order");
        let dead = "SELECT count(*) FROM {p}_inbox WHERE payload = 'poison'";
        assert_eq!(place.count(&client, dead).await, poison);
        println!("{:?} {:?}", one.stats(), other.stats());
    });
}
