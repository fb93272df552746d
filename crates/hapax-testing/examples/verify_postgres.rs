//! Checks deduplication by PostgreSQL: `INSERT … ON CONFLICT`, which is one statement, and a
//! `SELECT` before it, which makes two.
//!
//! `DATABASE_URL=postgres://… cargo run -p hapax-testing --example verify_postgres`

use hapax_testing::adapters::subject_async;
use hapax_testing::{Report, Semantics, Subject, Workload, verify};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio_postgres::{Client, NoTls};

/// Short, so that ids expire while the check runs: by the server's own clock.
const WINDOW: Duration = Duration::from_millis(200);
/// An answer that takes longer is none.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connections, in turn: statements of one connection run one after the other, and race with none.
pub struct Connections(Vec<Client>, AtomicUsize);

impl Connections {
    fn next(&self) -> &Client {
        &self.0[self.1.fetch_add(1, Ordering::Relaxed) % self.0.len()]
    }
}

/// Inserts an id that is not there, or takes one over that is over. The clock is read once the row
/// is locked.
const INSERT: &str = "INSERT INTO hapax_verify (id, over_at) VALUES ($1, clock_timestamp() + interval '200 ms')
    ON CONFLICT (id) DO UPDATE SET over_at = clock_timestamp() + interval '200 ms'
    WHERE hapax_verify.over_at <= clock_timestamp()";

/// Returns the subject whose check is one statement.
pub fn on_conflict(runtime: Handle, connections: Arc<Connections>) -> impl Subject {
    subject_async(runtime, TIMEOUT, move |id: String, _at| {
        let connections = Arc::clone(&connections);
        async move { connections.next().execute(INSERT, &[&id]).await.map(|inserted| inserted == 1) }
    })
}

/// Returns the subject whose check is two statements.
pub fn select_then_insert(runtime: Handle, connections: Arc<Connections>) -> impl Subject {
    subject_async(runtime, TIMEOUT, move |id: String, _at| {
        let connections = Arc::clone(&connections);
        async move {
            let client = connections.next();
            let select = "SELECT FROM hapax_verify WHERE id = $1 AND over_at > clock_timestamp()";
            let known = client.query_opt(select, &[&id]).await?;
            client.execute(INSERT, &[&id]).await?;
            Ok::<bool, tokio_postgres::Error>(known.is_none())
        }
    })
}

/// Verifies one of the subjects on a server, in a table that it makes anew.
pub fn run<S: Subject>(
    url: &str,
    subject: impl FnOnce(Handle, Arc<Connections>) -> S,
) -> Result<Report, Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let connections = runtime.block_on(connect(url, 4))?;
    let subject = subject(runtime.handle().clone(), connections);
    // Threads meet often: each meeting is a chance for the race.
    let workload = Workload { operations: 2_400, operations_per_window: 800, ..Workload::of_own_clock(WINDOW) };
    let workload = Workload { meet_every: 12, ..workload };
    Ok(verify(&subject, &workload, &Semantics::of_own_clock(WINDOW))?)
}

async fn connect(url: &str, connections: usize) -> Result<Arc<Connections>, tokio_postgres::Error> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        clients.push(client);
    }
    let table = "DROP TABLE IF EXISTS hapax_verify; \
                 CREATE TABLE hapax_verify (id text PRIMARY KEY, over_at timestamptz NOT NULL)";
    clients[0].batch_execute(table).await?;
    Ok(Arc::new(Connections(clients, AtomicUsize::new(0))))
}

fn main() -> Result<(), Box<dyn Error>> {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        println!("DATABASE_URL says which database to use, and it is not set.");
        return Ok(());
    };
    println!("INSERT … ON CONFLICT: {}\n", run(&url, on_conflict)?);
    match run(&url, select_then_insert) {
        Err(violation) => println!("SELECT, then INSERT: {violation}"),
        Ok(report) => println!("SELECT, then INSERT, whose race did not show this time: {report}"),
    }
    Ok(())
}
