//! PostgreSQL next to what its best users write: an `INSERT` of an array, and one of each id on
//! many connections. In turns; the answers are checked. Besides ids a second: processor time of
//! server and client, and write-ahead log, of an id. These do not depend on the machine's other
//! load.

use crate::load::{CALLERS, id, numbers};
use crate::postgres_server::Server;
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_store::TieredDedup;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

const ROUNDS: usize = 7;
const BATCH: u64 = 1_024;
const TASKS: u64 = 4;
/// The batches of each task in a round.
const BATCHES: u64 = 24;
/// The connections for one id at a time.
const CONNECTIONS: usize = 16;
const EACH: u64 = 160;

const PLAIN: &str = "CREATE TABLE plain (id bytea PRIMARY KEY)";
const PARTITIONED: &str = "CREATE TABLE partitioned (id bytea NOT NULL, day integer NOT NULL, PRIMARY KEY (id, day)) PARTITION BY LIST (day); \
     CREATE TABLE partitioned_1 PARTITION OF partitioned FOR VALUES IN (1)";

/// The resources that one round took.
#[derive(Clone, Copy)]
struct Taken {
    ids_per_s: f64,
    server_us: f64,
    client_us: f64,
    wal_bytes: f64,
}

pub async fn run() {
    println!(
        "\n== PostgreSQL, {TASKS} tasks with batches of {BATCH}, and {CALLERS} callers one by one, durable: medians of {ROUNDS} rounds in turns"
    );
    let Some(server) = Server::start(&["max_wal_size=4GB"]) else { return };
    let admin = client(&server).await;
    admin.batch_execute(&format!("{PLAIN}; {PARTITIONED}")).await.expect("tables");
    let plain =
        inserters(&server, "INSERT INTO plain SELECT unnest($1::bytea[]) ON CONFLICT DO NOTHING RETURNING id").await;
    let partitioned =
        inserters(&server, "INSERT INTO partitioned SELECT unnest($1::bytea[]), 1 ON CONFLICT DO NOTHING RETURNING id")
            .await;
    let one = "INSERT INTO plain VALUES ($1) ON CONFLICT DO NOTHING";
    let mut one_by_one = Vec::new();
    for _ in 0..CONNECTIONS {
        one_by_one.push(inserter(&server, one).await);
    }
    let (engine, narrow) = (engine(&server, "hapax", 4).await, engine(&server, "narrow", 2).await);
    let mut rows = [const { Vec::new() }; 9];
    // The first round makes plans and touches memory, and does not count.
    for round in 0..=ROUNDS {
        let taken = [
            measured(&server, &admin, TASKS * BATCHES * BATCH, insert_batches(&plain)).await,
            measured(&server, &admin, TASKS * BATCHES * BATCH, insert_batches(&partitioned)).await,
            measured(&server, &admin, TASKS * BATCHES * BATCH, check_batches(&engine)).await,
            measured(&server, &admin, TASKS * BATCHES * BATCH, check_batches(&narrow)).await,
            measured(&server, &admin, CALLERS * EACH / 4, insert_one_by_one(&one_by_one)).await,
            measured(&server, &admin, CALLERS * EACH, check_one_by_one(&engine)).await,
            measured(&server, &admin, CALLERS * EACH, check_one_by_one(&narrow)).await,
            measured(&server, &admin, CALLERS * EACH / 4, claim_one_by_one(&engine)).await,
            measured(&server, &admin, CALLERS * EACH / 4, claim_one_by_one(&narrow)).await,
        ];
        if round > 0 {
            rows.iter_mut().zip(taken).for_each(|(row, taken)| row.push(taken));
        }
    }
    let [plain, partitioned, batches, batches_2, one, checks, checks_2, claimed, claimed_2] = &rows;
    let head = [
        "k ids/s (least, most)",
        "server us",
        "client us",
        "WAL bytes",
        "beside the best rival, by round (least, most)",
    ];
    println!("{:<44} {:>24} {:>10} {:>10} {:>10}   {}", "", head[0], head[1], head[2], head[3], head[4]);
    show("unnest INSERT, a table", plain, &[]);
    show("unnest INSERT, one partition", partitioned, &[("a table", plain)]);
    let tables = [("a table, bar 0.7", plain), ("a partition, bar 0.9", partitioned)];
    show("hapax, check_batch", batches, &tables);
    show("hapax, check_batch, 2 connections", batches_2, &tables);
    show("INSERT one by one, 16 connections", one, &[]);
    show("hapax, check", checks, &[("16 connections, bar 6", one)]);
    show("hapax, check, 2 connections", checks_2, &[("16 connections, bar 6", one)]);
    show("hapax, claim and complete", claimed, &[("16 connections", one)]);
    show("hapax, claim and complete, 2 connections", claimed_2, &[("16 connections", one)]);
    for (name, engine) in [("4 connections", &engine), ("2 connections", &narrow)] {
        let stats = engine.stats();
        println!("{name}: {} ids in {} calls of the store", stats.store_requests, stats.store_calls);
    }
}

/// Returns a median with the least and the most.
fn spread(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn show(what: &str, rounds: &[Taken], beside: &[(&str, &Vec<Taken>)]) {
    let (ids, least, most) = spread(rounds.iter().map(|taken| taken.ids_per_s / 1e3));
    let median = |of: fn(&Taken) -> f64| spread(rounds.iter().map(of)).0;
    let ratios = beside.iter().map(|(name, other)| {
        let (ratio, least, most) =
            spread(rounds.iter().zip(*other).map(|(ours, theirs)| ours.ids_per_s / theirs.ids_per_s));
        let processors = |taken: &Taken| taken.server_us + taken.client_us;
        let (processor, ..) =
            spread(rounds.iter().zip(*other).map(|(ours, theirs)| processors(theirs) / processors(ours)));
        format!("{ratio:.2} x ({least:.2}, {most:.2}) {name}; by processor time {processor:.2} x")
    });
    println!(
        "{what:<44} {:>24} {:>10.2} {:>10.2} {:>10.0}   {}",
        format!("{ids:.1} ({least:.1}, {most:.1})"),
        median(|taken| taken.server_us),
        median(|taken| taken.client_us),
        median(|taken| taken.wal_bytes),
        ratios.collect::<Vec<_>>().join("; "),
    );
}

async fn measured(server: &Server, admin: &Client, ids: u64, work: impl Future<Output = ()>) -> Taken {
    let wal = async || {
        let row = admin
            .query_one("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8", &[])
            .await
            .expect("a place in the log");
        row.get::<_, f64>(0)
    };
    let (wal_before, server_before, client_before, begun) =
        (wal().await, server.processor_time(), client_time(), Instant::now());
    work.await;
    let ids = ids as f64;
    Taken {
        ids_per_s: ids / begun.elapsed().as_secs_f64(),
        server_us: (server.processor_time() - server_before).as_secs_f64() * 1e6 / ids,
        client_us: (client_time() - client_before).as_secs_f64() * 1e6 / ids,
        wal_bytes: (wal().await - wal_before) / ids,
    }
}

fn client_time() -> Duration {
    crate::postgres_server::processor_time_of(&[std::process::id()])
}

async fn client(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.address(), NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

type Inserter = Arc<(Client, Statement)>;

async fn inserter(server: &Server, sql: &str) -> Inserter {
    let client = client(server).await;
    let statement = client.prepare(sql).await.expect("a statement");
    Arc::new((client, statement))
}

async fn inserters(server: &Server, sql: &str) -> Vec<Inserter> {
    let mut all = Vec::new();
    for _ in 0..TASKS {
        all.push(inserter(server, sql).await);
    }
    all
}

/// Returns the ids of one batch, in order against deadlocks.
fn batch(first: u64, number: u64) -> Vec<[u8; 16]> {
    let mut ids: Vec<_> = (0..BATCH).map(|i| id(first + number * BATCH + i)).collect();
    ids.sort_unstable();
    ids
}

async fn insert_batches(inserters: &[Inserter]) {
    let first = numbers(TASKS * BATCHES * BATCH);
    let mut tasks = JoinSet::new();
    for (task, inserter) in (0..).zip(inserters.iter().cloned()) {
        tasks.spawn(async move {
            let (client, statement) = &*inserter;
            for number in 0..BATCHES {
                let ids = batch(first, task * BATCHES + number);
                let asked: Vec<&[u8]> = ids.iter().map(<[u8; 16]>::as_slice).collect();
                let inserted = client.query(statement, &[&asked]).await.expect("an answer");
                assert!(inserted.iter().zip(&ids).all(|(row, id)| row.get::<_, &[u8]>(0) == id), "all were fresh");
                assert_eq!(inserted.len(), ids.len(), "all were fresh");
            }
        });
    }
    tasks.join_all().await;
}

async fn check_batches(dedup: &TieredDedup<PostgresStore>) {
    let first = numbers(TASKS * BATCHES * BATCH);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let dedup = dedup.clone();
        tasks.spawn(async move {
            for number in 0..BATCHES {
                for verdict in dedup.check_batch(batch(first, task * BATCHES + number)).await {
                    assert!(verdict.expect("an answer").is_fresh(), "it was fresh");
                }
            }
        });
    }
    tasks.join_all().await;
}

async fn insert_one_by_one(inserters: &[Inserter]) {
    let (first, next) = (numbers(CALLERS * EACH / 4), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for inserter in inserters.iter().cloned() {
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            let (client, statement) = &*inserter;
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= CALLERS * EACH / 4 {
                    break;
                }
                let inserted = client.execute(statement, &[&id(first + i).as_slice()]).await.expect("an answer");
                assert_eq!(inserted, 1, "it was fresh");
            }
        });
    }
    tasks.join_all().await;
}

async fn check_one_by_one(dedup: &TieredDedup<PostgresStore>) {
    crate::load::check(dedup, CALLERS, EACH, 0).await;
}

async fn claim_one_by_one(dedup: &TieredDedup<PostgresStore>) {
    crate::load::claim(dedup, CALLERS, EACH / 4).await;
}

async fn engine(server: &Server, table: &str, connections: usize) -> TieredDedup<PostgresStore> {
    let options = PostgresOptions::parse(&server.address()).expect("an address");
    let options = options.connections(connections).expect("a pool");
    let store = PostgresStore::new(options, table).expect("a store");
    store.migrate().await.expect("tables");
    let retention = Duration::from_secs(24 * 3_600);
    TieredDedup::builder(store).retention(retention).timeout(Duration::from_secs(10)).build().await.expect("an engine")
}
