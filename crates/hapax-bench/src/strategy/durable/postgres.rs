//! PostgreSQL, asked with `tokio-postgres`: a table of ids.

use super::lasting::Keep;
use super::pool::Pool;
use crate::strategy::{Failure, Needs, Plan, Sort};
use std::collections::HashSet;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};

/// Runs `INSERT … ON CONFLICT DO NOTHING`, prepared, on a connection for each thread: a transaction
/// for each id, which is the first solution that one would write; or one for those of a batch, with
/// an array of them, sorted against deadlocks, that returns those that were inserted.
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
        let (insert, insert_all) = (client.prepare(INSERT), client.prepare(INSERT_ALL));
        let (insert, insert_all) = runtime.block_on(async { Ok::<_, Failure>((insert.await?, insert_all.await?)) })?;
        Ok(Session { runtime, client, insert, insert_all })
    }
}

fn client(address: &str) -> Result<(Runtime, Client), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (client, connection) = runtime.block_on(tokio_postgres::connect(address, NoTls))?;
    // The client gets its errors.
    runtime.spawn(connection);
    Ok((runtime, client))
}

impl<const BATCHED: bool> Keep for Postgres<BATCHED> {
    const NAME: &'static str = if BATCHED { "PostgreSQL INSERT, batched" } else { "PostgreSQL INSERT, one at a time" };
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Postgres;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        let address = plan.server()?.to_owned();
        let (runtime, owner) = client(&address)?;
        runtime.block_on(owner.batch_execute(TABLE))?;
        Ok(Postgres(Pool::new(plan.threads, move || Session::connect(&address))?))
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        self.0.with(|session| Ok(session.runtime.block_on(session.client.execute(&session.insert, &[&id]))? == 1))
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        if !BATCHED {
            return super::lasting::add_each(self, ids, fresh);
        }
        let ids: Vec<B> = ids.collect();
        let mut sorted: Vec<&[u8]> = ids.iter().map(AsRef::as_ref).collect();
        sorted.sort_unstable();
        let rows = self
            .0
            .with(|session| Ok(session.runtime.block_on(session.client.query(&session.insert_all, &[&sorted]))?))?;
        let mut new = rows.iter().map(|row| row.try_get::<_, &[u8]>(0)).collect::<Result<HashSet<_>, _>>()?;
        // Of equal ids the first one is new.
        fresh.extend(ids.iter().map(|id| new.remove(id.as_ref())));
        Ok(())
    }
}
