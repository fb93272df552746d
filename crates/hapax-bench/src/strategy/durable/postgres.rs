//! PostgreSQL, asked with `tokio-postgres`: a table of ids.

use super::distinct::Distinct;
use super::lasting::Keep;
use super::pool::Pool;
use crate::strategy::{Failure, Needs, Plan, Sort};
use std::pin::pin;
use tokio::runtime::Runtime;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, Row, Statement};

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
        answer(batch, &self.runtime.block_on(self.client.query(&self.insert_all, &[&ids]))?, fresh)
    }
}

/// Appends a batch's answers, given the rows that were inserted.
fn answer<B: AsRef<[u8]>>(batch: &Distinct<B>, rows: &[Row], fresh: &mut Vec<bool>) -> Result<(), Failure> {
    let new = rows.iter().map(|row| row.try_get::<_, &[u8]>(0)).collect::<Result<Vec<_>, _>>()?;
    batch.answer(new.into_iter(), fresh)
}

fn client(address: &str) -> Result<(Runtime, Client), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (client, connection) = runtime.block_on(tokio_postgres::connect(address, NoTls))?;
    // The client gets its errors.
    runtime.spawn(connection);
    Ok((runtime, client))
}

/// Makes the table, and a session for each thread.
fn sessions<S: 'static>(plan: &Plan, connect: fn(&str) -> Result<S, Failure>) -> Result<Pool<S>, Failure> {
    let address = plan.server()?.to_owned();
    let (runtime, owner) = client(&address)?;
    runtime.block_on(owner.batch_execute(TABLE))?;
    Pool::new(plan.threads, move || connect(&address))
}

impl<const BATCHED: bool> Keep for Postgres<BATCHED> {
    const NAME: &'static str = if BATCHED { "PostgreSQL INSERT, batched" } else { "PostgreSQL INSERT, one at a time" };
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Postgres;
    const BATCHES: bool = BATCHED;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        Ok(Postgres(sessions(plan, Session::connect)?))
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

/// Copies a batch, in the binary format, to a temporary table of its connection, and inserts from
/// there, sorted, in one transaction: what its manual advises for many rows, and conflicts on top.
/// A single id is inserted as above.
///
/// *Durable*: when it is answered, as above.
pub struct PostgresCopy(Pool<CopySession>);

const STAGE: &str = "CREATE TEMPORARY TABLE stage (id bytea NOT NULL) ON COMMIT DELETE ROWS";
const COPY: &str = "COPY stage (id) FROM STDIN (FORMAT binary)";
const INSERT_STAGED: &str = "INSERT INTO ids (id) SELECT id FROM stage ORDER BY id ON CONFLICT DO NOTHING RETURNING id";

pub struct CopySession {
    session: Session,
    copy: Statement,
    insert_staged: Statement,
}

impl CopySession {
    fn connect(address: &str) -> Result<CopySession, Failure> {
        let session = Session::connect(address)?;
        let (copy, insert_staged) = session.runtime.block_on(async {
            session.client.batch_execute(STAGE).await?;
            Ok::<_, tokio_postgres::Error>((
                session.client.prepare(COPY).await?,
                session.client.prepare(INSERT_STAGED).await?,
            ))
        })?;
        Ok(CopySession { session, copy, insert_staged })
    }

    fn add_all<B: AsRef<[u8]>>(&mut self, batch: &Distinct<B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let CopySession { session: Session { runtime, client, .. }, copy, insert_staged } = self;
        let rows = runtime.block_on(async {
            let transaction = client.transaction().await?;
            let mut writer = pin!(BinaryCopyInWriter::new(transaction.copy_in(&*copy).await?, &[Type::BYTEA]));
            for id in &batch.ids {
                writer.as_mut().write(&[&id.as_ref()]).await?;
            }
            writer.finish().await?;
            let rows = transaction.query(&*insert_staged, &[]).await?;
            transaction.commit().await?;
            Ok::<_, tokio_postgres::Error>(rows)
        })?;
        answer(batch, &rows, fresh)
    }
}

impl Keep for PostgresCopy {
    const NAME: &'static str = "PostgreSQL COPY, batched";
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Postgres;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        Ok(PostgresCopy(sessions(plan, CopySession::connect)?))
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        self.0.with(|copying| copying.session.add(id))
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let batch = Distinct::of(ids);
        self.0.with(|copying| copying.add_all(&batch, fresh))
    }
}
