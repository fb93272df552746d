//! Checks deduplication by Redis: `SET … NX PX`, which is one command, and `EXISTS`, then `SET`,
//! which is two.
//!
//! `REDIS_URL=redis://127.0.0.1/ cargo run -p hapax-testing --example verify_redis`

use hapax_testing::adapters::subject_async;
use hapax_testing::{Report, Semantics, Subject, Workload, verify};
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisError, cmd};
use std::error::Error;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// Short, so that ids expire while the check runs: by the server's own clock.
const WINDOW: Duration = Duration::from_millis(200);
/// The unit in which the server counts.
const STEP: Duration = Duration::from_millis(1);
/// An answer that takes longer is none.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the subject whose check is one command.
pub fn set_nx(runtime: Handle, server: MultiplexedConnection) -> impl Subject {
    subject_async(runtime, TIMEOUT, move |id: String, _at| {
        let mut server = server.clone();
        async move {
            let mut set = cmd("SET");
            set.arg(name(&id)).arg(1).arg("NX").arg("PX").arg(WINDOW.as_millis() as u64);
            let is_set: Option<String> = set.query_async(&mut server).await?;
            Ok::<bool, RedisError>(is_set.is_some())
        }
    })
}

/// Returns the subject whose check is two commands.
pub fn exists_then_set(runtime: Handle, server: MultiplexedConnection) -> impl Subject {
    subject_async(runtime, TIMEOUT, move |id: String, _at| {
        let mut server = server.clone();
        async move {
            let exists: bool = cmd("EXISTS").arg(name(&id)).query_async(&mut server).await?;
            let mut set = cmd("SET");
            set.arg(name(&id)).arg(1).arg("PX").arg(WINDOW.as_millis() as u64);
            set.query_async::<()>(&mut server).await?;
            Ok::<bool, RedisError>(!exists)
        }
    })
}

/// Returns a name that nothing else in the database has: the process's own.
fn name(id: &str) -> String {
    format!("hapax-verify:{}:{id}", std::process::id())
}

/// Verifies one of the subjects on a server. The ids of a number are those of no other.
pub fn run<S: Subject>(
    url: &str,
    number: u64,
    subject: impl FnOnce(Handle, MultiplexedConnection) -> S,
) -> Result<Report, Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let server = runtime.block_on(Client::open(url)?.get_multiplexed_async_connection())?;
    let subject = subject(runtime.handle().clone(), server);
    let workload = Workload {
        operations: 8_000,
        operations_per_window: 2_000,
        meet_every: 16, // each meeting is a chance for the race
        // Other ids for each subject, as all are on one server.
        only: (0..3_000).map(|id| number << 32 | id).collect(),
        ..Workload::of_own_clock(WINDOW)
    };
    let semantics = Semantics::of_own_clock(WINDOW - STEP);
    Ok(verify(&subject, &workload, &Semantics { slack: semantics.slack + 2 * STEP, ..semantics })?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let Ok(url) = std::env::var("REDIS_URL") else {
        println!("REDIS_URL says which server to use, and it is not set.");
        return Ok(());
    };
    println!("SET NX PX: {}\n", run(&url, 1, set_nx)?);
    match run(&url, 2, exists_then_set) {
        Err(violation) => println!("EXISTS, then SET: {violation}"),
        Ok(report) => println!("EXISTS, then SET, whose race did not show this time: {report}"),
    }
    Ok(())
}
