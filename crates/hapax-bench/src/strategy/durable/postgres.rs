//! PostgreSQL, asked with `tokio-postgres`: a table of ids.

use super::distinct::Distinct;
use super::lasting::Keep;
use super::pool::Pool;
use crate::strategy::{Failure, Needs, Plan, Sort};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};

/// Runs `INSERT … ON CONFLICT DO NOTHING`, prepared, on a connection for each thread: a transaction
/// for each id, which is the first solution that one would write; or one statement for a batch,
/// with an array of ids, sorted against deadlocks, that returns those that were inserted.
///
/// *Durable*: when it is answered, with the server's default settings: every transaction waits for
/// the disk (those of several threads may share one sync). The table has the ids and their index,
/// and nothing else.
pub struct Postgres<const BATCHED: bool>(Pool<Session>);

const TABLE: &str = "CREATE TABLE ids (id bytea PRIMARY KEY)";
const INSERT: &str = "INSERT INTO ids (id) VALUES ($1) ON CONFLICT DO NOTHING";
const INSERT_ALL: &str = "INSERT INTO ids (id) SELECT unnest($1::bytea[]) ON CONFLICT DO NOTHING RETURNING id";

/// A connection that is driven by the thread that asks, so that no other thread has to be woken.
pub struct Session {
    runtime: Runtime,
    client: Client,
    insert: Statement,
    insert_all: Statement,
}

impl Session {
    fn connect(address: &str) -> Result<Session, Failure> {
        let (runtime, client) = client(address)?;
        let insert = runtime.block_on(client.prepare(INSERT))?;
        let insert_all = runtime.block_on(client.prepare(INSERT_ALL))?;
        Ok(Session { runtime, client, insert, insert_all })
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        Ok(self.runtime.block_on(self.client.execute(&self.insert, &[&id]))? == 1)
    }

    fn add_all<B: AsRef<[u8]>>(&self, batch: &Distinct<B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let ids: Vec<&[u8]> = batch.ids.iter().map(AsRef::as_ref).collect();
        let rows = self.runtime.block_on(self.client.query(&self.insert_all, &[&ids]))?;
        let new = rows.iter().map(|row| row.try_get::<_, &[u8]>(0)).collect::<Result<Vec<_>, _>>()?;
        batch.answer(new.into_iter(), fresh)
    }
}

fn client(address: &str) -> Result<(Runtime, Client), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (client, connection) = runtime.block_on(tokio_postgres::connect(address, NoTls))?;
    // The client gets its errors.
    runtime.spawn(connection);
    Ok((runtime, client))
}

fn sessions(plan: &Plan) -> Result<Pool<Session>, Failure> {
    let address = plan.server()?.to_owned();
    let (runtime, owner) = client(&address)?;
    runtime.block_on(owner.batch_execute(TABLE))?;
    Pool::new(plan.threads, move || Session::connect(&address))
}

impl<const BATCHED: bool> Keep for Postgres<BATCHED> {
    const NAME: &'static str = if BATCHED { "PostgreSQL INSERT, batched" } else { "PostgreSQL INSERT, one at a time" };
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Postgres;
    const BATCHES: bool = BATCHED;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        Ok(Postgres(sessions(plan)?))
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        self.0.with(|session| session.add(id))
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        if !BATCHED {
            for id in ids {
                fresh.push(self.add(id.as_ref())?);
            }
            return Ok(());
        }
        let batch = Distinct::of(ids);
        self.0.with(|session| session.add_all(&batch, fresh))
    }
}
