//! PostgreSQL with default durability.

use crate::load::{CALLERS, check, claim, id, numbers};
use crate::postgres_server::Server;
use crate::table::{median, row};
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_store::TieredDedup;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;

/// Runs one prepared insertion in each transaction, on one connection. Returns ids a second.
async fn naive(server: &Server, ids: u64) -> f64 {
    let (client, connection) =
        tokio_postgres::connect(&server.address(), tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
        .batch_execute("CREATE TABLE IF NOT EXISTS naive (id bytea PRIMARY KEY, at timestamptz DEFAULT now())")
        .await
        .expect("a table");
    let insert =
        client.prepare("INSERT INTO naive (id) VALUES ($1) ON CONFLICT DO NOTHING").await.expect("a statement");
    let (first, begun) = (numbers(ids), Instant::now());
    for i in 0..ids {
        let inserted = client.execute(&insert, &[&id(first + i).as_slice()]).await.expect("an answer");
        assert_eq!(inserted, 1, "it was fresh");
    }
    ids as f64 / begun.elapsed().as_secs_f64()
}

async fn engine(server: &Server) -> TieredDedup<PostgresStore> {
    let options = PostgresOptions::parse(&server.address()).expect("an address");
    let store = PostgresStore::new(options, "hapax").expect("a store");
    store.migrate().await.expect("tables");
    let retention = Duration::from_secs(24 * 3_600);
    TieredDedup::builder(store).retention(retention).timeout(Duration::from_secs(10)).build().await.expect("an engine")
}

pub async fn run() {
    println!("\n== PostgreSQL, shared, {CALLERS} callers at a time, durable");
    let Some(server) = Server::start(&[]) else { return };
    let (mut one, mut ours, mut claims) = (Vec::new(), Vec::new(), Vec::new());
    let dedup = engine(&server).await;
    // This warms plans and tables.
    check(&dedup, CALLERS, 20, 0).await;
    for _ in 0..ROUNDS {
        one.push(naive(&server, 1_000).await);
        ours.push(check(&dedup, CALLERS, 400, 0).await);
        claims.push(claim(&dedup, CALLERS, 100).await);
    }
    let one = median(one);
    row("one INSERT … ON CONFLICT a transaction", one, "ids/s", None, "");
    row("engine, fresh ids", median(ours), "ids/s", Some(("one at a time", one)), "target: 35 x");
    row("engine, claim and complete", median(claims), "ids/s", Some(("one INSERT at a time", one)), "");
}
