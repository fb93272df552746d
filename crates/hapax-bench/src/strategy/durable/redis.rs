//! Redis, asked with the `redis` crate: a key for each id.

use super::lasting::Keep;
use super::pool::Pool;
use crate::strategy::{Failure, Needs, Plan, Sort};
use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, Cmd, Connection, Pipeline};
use std::time::Duration;
use tokio::runtime::Runtime;

/// The time for which the server keeps an id.
const RETENTION_SECONDS: u64 = 24 * 3_600;

/// The time to wait for a busy server: a run is to be slow then, not to fail.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends `SET id "" NX EX …` on a connection for each thread: one after the other, each after the
/// answer to the one before, which is the first solution that one would write; or those of a batch
/// in one pipeline, which is the best that the server has without scripts.
///
/// *Durable*: nothing. The measured server keeps no snapshot and no log; with `appendonly` and
/// `appendfsync always` it would be slower. Its data survives the consumer's crash, and is shared.
pub struct Redis<const PIPELINED: bool>(Pool<Connection>);

fn connections(plan: &Plan) -> Result<Pool<Connection>, Failure> {
    let client = Client::open(plan.server()?)?;
    Pool::new(plan.threads, move || Ok(client.get_connection()?))
}

fn set(id: &[u8]) -> Cmd {
    let mut command = ::redis::cmd("SET");
    command.arg(id).arg("").arg("NX").arg("EX").arg(RETENTION_SECONDS);
    command
}

fn pipeline<B: AsRef<[u8]>>(ids: impl Iterator<Item = B>) -> Pipeline {
    let mut pipeline = Pipeline::new();
    ids.for_each(|id| {
        pipeline.add_command(set(id.as_ref()));
    });
    pipeline
}

impl<const PIPELINED: bool> Keep for Redis<PIPELINED> {
    const NAME: &'static str = if PIPELINED { "Redis SET NX EX, pipelined" } else { "Redis SET NX EX, one at a time" };
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Redis;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        Ok(Redis(connections(plan)?))
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        // The answer is OK if it was set, nil if it was there.
        self.0.with(|connection| Ok(set(id).query(connection)?))
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        if !PIPELINED {
            return super::lasting::add_each(self, ids, fresh);
        }
        let pipeline = pipeline(ids);
        if !pipeline.is_empty() {
            let answers: Vec<bool> = self.0.with(|connection| Ok(pipeline.query(connection)?))?;
            fresh.extend(answers);
        }
        Ok(())
    }
}

/// Sends the same command on one connection for all threads, as asynchronous programs do: a task
/// writes what they ask for at about the same time together, and hands out the answers. A batch is
/// one pipeline.
///
/// *Durable*: nothing, as above.
pub struct Multiplexed {
    connection: MultiplexedConnection,
    runtime: Runtime,
}

impl Keep for Multiplexed {
    const NAME: &'static str = "Redis SET NX EX, multiplexed";
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Redis;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        let client = Client::open(plan.server()?)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let connection = runtime.block_on(client.get_multiplexed_async_connection_with_config(&config))?;
        Ok(Multiplexed { connection, runtime })
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        Ok(self.runtime.block_on(set(id).query_async(&mut self.connection.clone()))?)
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let pipeline = pipeline(ids);
        if !pipeline.is_empty() {
            let mut connection = self.connection.clone();
            let answers: Vec<bool> = self.runtime.block_on(pipeline.query_async(&mut connection))?;
            fresh.extend(answers);
        }
        Ok(())
    }
}
