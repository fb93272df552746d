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

/// Runs `INSERT … ON CONFLICT DO NOTHING`, prepared, on a connection for each thread. A batch is
/// inserted as `HOW` says.
///
/// *Durable*: when it is answered, with the server's default settings: every transaction waits for
/// the disk (those of several threads may share one sync). The table has the ids and their index,
/// and nothing else.
pub struct Postgres<const HOW: char>(Pool<Session>);

/// A transaction for each id, which is the first solution that one would write.
pub const SINGLE: char = '1';

/// One statement, with an array of ids, sorted against deadlocks, that returns those that were
/// inserted.
pub const ARRAY: char = '[';

/// A copy of the batch, in the binary format, to a temporary table of the connection, and an insert
/// from there, sorted, in one transaction: what the manual advises for many rows, and conflicts on
/// top.
pub const COPIED: char = 'c';

const TABLE: &str = "CREATE TABLE ids (id bytea PRIMARY KEY)";
const STAGE: &str = "CREATE TEMPORARY TABLE stage (id bytea NOT NULL) ON COMMIT DELETE ROWS";
const INSERT: &str = "INSERT INTO ids (id) VALUES ($1) ON CONFLICT DO NOTHING";
const INSERT_ALL: &str = "INSERT INTO ids (id) SELECT unnest($1::bytea[]) ON CONFLICT DO NOTHING RETURNING id";
const COPY: &str = "COPY stage (id) FROM STDIN (FORMAT binary)";
const INSERT_STAGED: &str = "INSERT INTO ids (id) SELECT id FROM stage ORDER BY id ON CONFLICT DO NOTHING RETURNING id";

/// A connection that is driven by the thread that asks, so that no other thread has to be woken.
pub struct Session {
    runtime: Runtime,
    client: Client,
    insert: Statement,
    insert_all: Statement,
    copy: Statement,
    insert_staged: Statement,
}

impl Session {
    fn connect(address: &str) -> Result<Session, Failure> {
        let (runtime, client) = client(address)?;
        runtime.block_on(client.batch_execute(STAGE))?;
        let prepared = |text| runtime.block_on(client.prepare(text));
        let (insert, insert_all) = (prepared(INSERT)?, prepared(INSERT_ALL)?);
        let (copy, insert_staged) = (prepared(COPY)?, prepared(INSERT_STAGED)?);
        Ok(Session { runtime, client, insert, insert_all, copy, insert_staged })
    }

    fn insert_all<B: AsRef<[u8]>>(&mut self, batch: &Distinct<B>) -> Result<Vec<Row>, tokio_postgres::Error> {
        let ids: Vec<&[u8]> = batch.ids.iter().map(AsRef::as_ref).collect();
        self.runtime.block_on(self.client.query(&self.insert_all, &[&ids]))
    }

    fn copy_all<B: AsRef<[u8]>>(&mut self, batch: &Distinct<B>) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.runtime.block_on(async {
            let transaction = self.client.transaction().await?;
            let mut writer = pin!(BinaryCopyInWriter::new(transaction.copy_in(&self.copy).await?, &[Type::BYTEA]));
            for id in &batch.ids {
                writer.as_mut().write(&[&id.as_ref()]).await?;
            }
            writer.finish().await?;
            let rows = transaction.query(&self.insert_staged, &[]).await?;
            transaction.commit().await?;
            Ok(rows)
        })
    }
}

fn client(address: &str) -> Result<(Runtime, Client), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (client, connection) = runtime.block_on(tokio_postgres::connect(address, NoTls))?;
    // The client gets its errors.
    runtime.spawn(connection);
    Ok((runtime, client))
}

impl<const HOW: char> Keep for Postgres<HOW> {
    const NAME: &'static str = match HOW {
        SINGLE => "PostgreSQL INSERT, one at a time",
        ARRAY => "PostgreSQL INSERT, batched",
        _ => "PostgreSQL COPY, batched",
    };
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
        if HOW == SINGLE {
            return super::lasting::add_each(self, ids, fresh);
        }
        let batch = Distinct::of(ids);
        let all = |session: &mut Session| match HOW {
            ARRAY => session.insert_all(&batch),
            _ => session.copy_all(&batch),
        };
        let rows = self.0.with(|session| Ok(all(session)?))?;
        let new = rows.iter().map(|row| row.try_get::<_, &[u8]>(0)).collect::<Result<Vec<_>, _>>()?;
        batch.answer(new.into_iter(), fresh)
    }
}
