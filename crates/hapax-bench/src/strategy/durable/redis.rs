//! Redis, asked with the `redis` crate: a key for each id.

use super::lasting::Keep;
use super::pool::Pool;
use crate::measure::Sort;
use crate::strategy::{Failure, Needs, Plan};
use ::redis::{Client, Cmd, Connection, Pipeline};

/// The time for which the server keeps an id.
const RETENTION_SECONDS: u64 = 24 * 3_600;

/// Sends `SET id "" NX EX …` and waits for its answer, one after the other, on a connection for
/// each thread: the first solution that one would write.
///
/// *Durable*: nothing. The measured server keeps no snapshot and no log; with `appendonly` and
/// `appendfsync always` it would be slower. Its data survives the consumer's crash, and is shared.
pub struct RedisOneByOne(Pool<Connection>);

/// Sends the same commands, those of a batch in one pipeline: the best that the server has without
/// scripts.
pub struct RedisPipelined(Pool<Connection>);

fn connections(plan: &Plan) -> Result<Pool<Connection>, Failure> {
    let client = Client::open(plan.server()?)?;
    Pool::new(plan.threads, move || Ok(client.get_connection()?))
}

fn set(id: &[u8]) -> Cmd {
    let mut command = ::redis::cmd("SET");
    command.arg(id).arg("").arg("NX").arg("EX").arg(RETENTION_SECONDS);
    command
}

fn add(connections: &Pool<Connection>, id: &[u8]) -> Result<bool, Failure> {
    // The answer is OK if it was set, nil if it was there.
    connections.with(|connection| Ok(set(id).query(connection)?))
}

impl Keep for RedisOneByOne {
    const NAME: &'static str = "Redis SET NX EX, one at a time";
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Redis;
    const BATCHES: bool = false;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        Ok(RedisOneByOne(connections(plan)?))
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        add(&self.0, id)
    }
}

impl Keep for RedisPipelined {
    const NAME: &'static str = "Redis SET NX EX, pipelined";
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Redis;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        Ok(RedisPipelined(connections(plan)?))
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        add(&self.0, id)
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let mut pipeline = Pipeline::new();
        ids.for_each(|id| {
            pipeline.add_command(set(id.as_ref()));
        });
        let answers: Vec<bool> = match pipeline.is_empty() {
            true => return Ok(()),
            false => self.0.with(|connection| Ok(pipeline.query(connection)?))?,
        };
        fresh.extend(answers);
        Ok(())
    }
}
