//! Readings that a consumer writes in batches: faster than one by one, and once, whenever its
//! process is killed (kill -9).

use crate::harness::Place;
use crate::killed::{Consumer, client, random};
use hapax_patterns::bulk_rows::{self, Reading, insert};
use hapax_sqlite::SqliteStore;
use hapax_store::{InMemoryStore, Store, TieredDedup};
use hapax_stream::{Acks, Consumer as Handling, ConsumerStats, Delivery, Source};
use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Error};

const PLACE: &str = "HAPAX_BULK_PLACE";
const READINGS: i64 = 2_000;
const KILLS: i64 = 4;
const LEASE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(300);

fn reading(id: i64) -> Reading {
    Reading { id, meter: id % 7, watts: 1 + id * 7_919 % 1_000 }
}

/// A topic of readings, whose acknowledgements are rows.
struct Topic {
    client: Client,
    waiting: Mutex<VecDeque<i64>>,
}

impl Topic {
    async fn new(client: Client) -> Self {
        let sql = "SELECT id FROM generate_series(1, $1::bigint) id EXCEPT SELECT id FROM acknowledged ORDER BY id";
        let rows = client.query(sql, &[&READINGS]).await.expect("what is left");
        Topic { client, waiting: Mutex::new(rows.iter().map(|row| row.get(0)).collect()) }
    }
}

impl Source for Topic {
    type Message = i64;
    type Error = Error;

    async fn receive(&self, max: usize) -> Result<Option<Vec<i64>>, Error> {
        let received: Vec<i64> = {
            let mut waiting = self.waiting.lock().unwrap();
            let count = max.min(waiting.len());
            waiting.drain(..count).collect()
        };
        if received.is_empty() {
            let left = "SELECT count(*) < $1 FROM acknowledged";
            if !self.client.query_one(left, &[&READINGS]).await?.get::<_, bool>(0) {
                return Ok(None);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(Some(received))
    }

    async fn acknowledge(&self, readings: &[Arc<i64>]) -> Result<(), Error> {
        let ids: Vec<i64> = readings.iter().map(|id| **id).collect();
        let sql = "INSERT INTO acknowledged SELECT * FROM unnest($1::bigint[]) ON CONFLICT DO NOTHING";
        self.client.execute(sql, &[&ids]).await.map(drop)
    }

    async fn retry(&self, reading: &Arc<i64>, after: Duration) -> Result<(), Error> {
        tokio::time::sleep(after.min(LEASE / 10)).await;
        self.waiting.lock().unwrap().push_back(**reading);
        Ok(())
    }

    async fn dead_letter(&self, reading: &Arc<i64>, why: &str) -> Result<(), Error> {
        panic!("{reading} is put aside: {why}")
    }

    fn acks(&self) -> Acks {
        Acks::Each
    }

    fn keeps_received(&self) -> bool {
        true
    }
}

/// Writes all readings in batches of this many.
async fn consume(engine: TieredDedup<impl Store>, topic: &Topic, sink: Client, batch: usize) -> ConsumerStats {
    let builder = Handling::builder("readings", engine, |id: &i64| Some(id.to_string()));
    let builder = builder.retry_delay(LEASE / 10, LEASE / 5).handler_batch(batch, Duration::from_millis(20));
    let (consumer, sink) = (builder.build().expect("a consumer"), Arc::new(sink));
    let write = move |readings: Vec<Delivery<i64>>| {
        let (sink, readings) = (Arc::clone(&sink), readings.iter().map(|id| reading(**id)).collect::<Vec<_>>());
        async move { insert(&*sink, &readings).await.map(drop) }
    };
    consumer.run_batches(topic, write, pending()).await.expect("all are written")
}

/// Runs the consumer that is killed; this is no test.
#[test]
fn consumer() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let (path, address) = place.split_once('\n').expect("a path and an address");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = SqliteStore::open(path).await.expect("a store");
        let engine = TieredDedup::builder(store).lease(LEASE).build().await.expect("an engine");
        let topic = Topic::new(client(address).await).await;
        consume(engine, &topic, client(address).await, 50).await;
    });
}

const ACKNOWLEDGED: &str = "CREATE TABLE acknowledged (id bigint PRIMARY KEY)";

async fn is_right(observer: &Client) {
    let sums = observer.query("SELECT meter, watts FROM meters ORDER BY meter", &[]).await.unwrap();
    let sums: Vec<(i64, i64)> = sums.iter().map(|row| (row.get(0), row.get(1))).collect();
    let of = |meter| (1..=READINGS).map(reading).filter(|it| it.meter == meter).map(|it| it.watts).sum();
    assert_eq!(sums, (0..7).map(|meter| (meter, of(meter))).collect::<Vec<_>>(), "each reading once");
}

#[test]
fn readings_of_killed_processes_are_added_once() {
    let directory = testkit::directory::Directory::new("patterns_bulk");
    Place::run(&[bulk_rows::TABLES, ACKNOWLEDGED].join(";"), async |place| {
        let mut random = random();
        let observer = &place.connect().await.client;
        let at = format!("{}\n{}", directory.file("claims"), place.address());
        let end = Instant::now() + PATIENCE;
        for kill in 1..=KILLS {
            let mut consumer = Consumer::start("bulk::consumer", PLACE, &at);
            let written = "SELECT count(*) FROM readings";
            while observer.query_one(written, &[]).await.unwrap().get::<_, i64>(0) < READINGS * kill / (KILLS + 1) {
                assert!(Instant::now() < end, "nothing goes on");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_micros(random.below(10_000))).await;
            consumer.kill();
        }
        Consumer::start("bulk::consumer", PLACE, &at).ends_well(end).await;
        is_right(observer).await;
    });
}

#[test]
fn batches_are_written_several_times_as_fast_as_one_by_one() {
    Place::run(&[bulk_rows::TABLES, ACKNOWLEDGED].join(";"), async |place| {
        let observer = &place.connect().await.client;
        let mut took = Vec::new();
        for batch in [1, 500, 1, 500] {
            observer.batch_execute("TRUNCATE readings, meters, acknowledged").await.unwrap();
            let engine = TieredDedup::builder(InMemoryStore::new()).build().await.unwrap();
            let topic = Topic::new(client(place.address()).await).await;
            let (sink, begun) = (client(place.address()).await, Instant::now());
            let stats = consume(engine, &topic, sink, batch).await;
            took.push(begun.elapsed());
            assert_eq!((stats.handled, stats.failed, stats.split), (READINGS as u64, 0, 0), "{stats:?}");
            is_right(observer).await;
        }
        let of = |first: usize| took.iter().skip(first).step_by(2).min().expect("some").as_secs_f64();
        println!("{READINGS} readings one by one: {:.3} s; in batches: {:.3} s; all: {took:?}", of(0), of(1));
        assert!(of(0) > 3.0 * of(1), "one by one {:.3} s, in batches {:.3} s", of(0), of(1));
    });
}
