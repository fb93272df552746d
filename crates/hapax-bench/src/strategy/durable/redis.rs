//! Redis, asked with the `redis` crate: a key for each id.

use super::lasting::Keep;
use super::pool::Pool;
use crate::strategy::{Failure, Needs, Plan, Sort};
use ::redis::{Client, Cmd, Connection, Pipeline};

/// The time for which the server keeps an id.
const RETENTION_SECONDS: u64 = 24 * 3_600;

/// Sends `SET id "" NX EX …` on a connection for each thread: one after the other, each after the
/// answer to the one before, which is the first solution that one would write; or those of a batch
/// in one pipeline, which is the best that the server has without scripts.
///
/// *Durable*: nothing. The measured server keeps no snapshot and no log; with `appendonly` and
/// `appendfsync always` it would be slower. Its data survives the consumer's crash, and is shared.
pub struct Redis<const PIPELINED: bool>(Pool<Connection>);

fn set(id: &[u8]) -> Cmd {
    let mut command = ::redis::cmd("SET");
    command.arg(id).arg("").arg("NX").arg("EX").arg(RETENTION_SECONDS);
    command
}

impl<const PIPELINED: bool> Keep for Redis<PIPELINED> {
    const NAME: &'static str = if PIPELINED { "Redis SET NX EX, pipelined" } else { "Redis SET NX EX, one at a time" };
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Redis;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        let client = Client::open(plan.server()?)?;
        Ok(Redis(Pool::new(plan.threads, move || Ok(client.get_connection()?))?))
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        // The answer is OK if it was set, nil if it was there.
        self.0.with(|connection| Ok(set(id).query(connection)?))
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        if !PIPELINED {
            return super::lasting::add_each(self, ids, fresh);
        }
        let mut pipeline = Pipeline::new();
        for id in ids {
            pipeline.add_command(set(id.as_ref()));
        }
        if !pipeline.is_empty() {
            let answers: Vec<bool> = self.0.with(|connection| Ok(pipeline.query(connection)?))?;
            fresh.extend(answers);
        }
        Ok(())
    }
}
