//! A caller's transaction, of either driver: the statements that are sent to it, and the rows that
//! come back.

use super::errors::corrupt;
use hapax_store::StoreError;

/// A transaction that the caller has begun and will commit: of tokio-postgres, of
/// deadpool-postgres, or, with the feature `sqlx`, of sqlx. A savepoint is one, too.
///
/// Since it is a transaction and not a connection, a mark cannot be committed by itself by mistake.
pub trait Transaction: asking::Ask {}

impl<T: asking::Ask> Transaction for T {}

/// A value in a statement.
#[derive(Clone, Copy, Debug)]
pub enum Value<'v> {
    Text(&'v str),
    OptionalText(Option<&'v str>),
    Bytes(&'v [u8]),
    OptionalBytes(Option<&'v [u8]>),
    Bool(bool),
    Number(i64),
    Real(f64),
    OptionalReal(Option<f64>),
    Texts(&'v [String]),
    OptionalTextEach(&'v [Option<String>]),
    BytesEach(&'v [Vec<u8>]),
    OptionalBytesEach(&'v [Option<Vec<u8>>]),
    Numbers(&'v [i64]),
    SomeNumbers(Option<&'v [i64]>),
    Reals(&'v [f64]),
    OptionalReals(&'v [Option<f64>]),
}

/// A row of an answer, of either driver.
#[derive(Debug)]
pub enum Row {
    Tokio(tokio_postgres::Row),
    #[cfg(feature = "sqlx")]
    Sqlx(sqlx::postgres::PgRow),
}

/// A value that rows have, in both drivers.
pub trait Column: Sized {
    fn of(row: &Row, name: &str) -> Result<Self, String>;
}

impl Row {
    /// Returns the value of this column.
    pub(super) fn get<T: Column>(&self, name: &str) -> Result<T, StoreError> {
        T::of(self, name).map_err(|error| corrupt(format!("expected a column {name}: {error}")))
    }
}

macro_rules! columns {
    ($($of:ty),+) => { $(impl Column for $of {
        fn of(row: &Row, name: &str) -> Result<Self, String> {
            match row {
                Row::Tokio(row) => row.try_get(name).map_err(|error| error.to_string()),
                #[cfg(feature = "sqlx")]
                Row::Sqlx(row) => sqlx::Row::try_get(row, name).map_err(|error| error.to_string()),
            }
        }
    })+ };
}

columns!(
    bool,
    i32,
    Option<i32>,
    i64,
    Vec<i64>,
    Option<Vec<i64>>,
    f64,
    String,
    Vec<u8>,
    Option<i64>,
    Option<f64>,
    Option<String>,
    Option<Vec<u8>>,
    Option<Vec<String>>
);

pub(super) mod asking {
    use super::*;

    /// The driver's part of a transaction. Public in a private module: no other crate implements
    /// it.
    pub trait Ask: Send {
        /// Asks for rows, in one round trip. The statement has no name, so that it may go through a
        /// pooler of transactions.
        fn ask(
            &mut self,
            doing: &'static str,
            sql: &str,
            values: &[Value<'_>],
        ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;
    }
}

pub(super) mod tokio_driver {
    use super::asking::Ask;
    use super::*;
    use crate::errors::failed;
    use tokio_postgres::types::{ToSql, Type};
    use tokio_postgres::{Error, GenericClient};

    type Typed<'v> = (&'v (dyn ToSql + Sync), Type);

    fn typed<'v>(value: &'v Value<'_>) -> Typed<'v> {
        match value {
            Value::Text(text) => (text, Type::TEXT),
            Value::OptionalText(text) => (text, Type::TEXT),
            Value::Bytes(bytes) => (bytes, Type::BYTEA),
            Value::OptionalBytes(bytes) => (bytes, Type::BYTEA),
            Value::Bool(is) => (is, Type::BOOL),
            Value::Number(number) => (number, Type::INT8),
            Value::Real(number) => (number, Type::FLOAT8),
            Value::OptionalReal(number) => (number, Type::FLOAT8),
            Value::Texts(texts) => (texts, Type::TEXT_ARRAY),
            Value::OptionalTextEach(texts) => (texts, Type::TEXT_ARRAY),
            Value::BytesEach(all) => (all, Type::BYTEA_ARRAY),
            Value::OptionalBytesEach(all) => (all, Type::BYTEA_ARRAY),
            Value::Numbers(numbers) => (numbers, Type::INT8_ARRAY),
            Value::SomeNumbers(numbers) => (numbers, Type::INT8_ARRAY),
            Value::Reals(numbers) => (numbers, Type::FLOAT8_ARRAY),
            Value::OptionalReals(numbers) => (numbers, Type::FLOAT8_ARRAY),
        }
    }

    /// Asks any client that can run a statement.
    pub(crate) async fn rows(client: &impl GenericClient, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let values: Vec<Typed<'_>> = values.iter().map(typed).collect();
        Ok(client.query_typed(sql, &values).await?.into_iter().map(Row::Tokio).collect())
    }

    impl Ask for tokio_postgres::Transaction<'_> {
        async fn ask(&mut self, doing: &'static str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
            rows(self, sql, values).await.map_err(|error| failed(doing, error))
        }
    }

    impl Ask for deadpool_postgres::Transaction<'_> {
        async fn ask(&mut self, doing: &'static str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
            let inner: &mut tokio_postgres::Transaction<'_> = self;
            inner.ask(doing, sql, values).await
        }
    }
}

#[cfg(feature = "sqlx")]
pub(super) mod sqlx_driver {
    use super::asking::Ask;
    use super::*;
    use crate::BACKEND;
    use crate::errors::refused;
    use hapax_store::ErrorKind;
    use sqlx::{AssertSqlSafe, PgExecutor, Postgres};
    use tokio_postgres::error::SqlState;

    /// Asks any executor that can run a statement.
    pub(crate) async fn rows(
        executor: impl PgExecutor<'_>,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, sqlx::Error> {
        // Texts are made in `statements` of names that were validated. Not persistent: without a
        // name, so that they may go through a pooler of transactions.
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned())).persistent(false);
        for value in values {
            query = match *value {
                Value::Text(text) => query.bind(text.to_owned()),
                Value::OptionalText(text) => query.bind(text.map(str::to_owned)),
                Value::Bytes(bytes) => query.bind(bytes.to_vec()),
                Value::OptionalBytes(bytes) => query.bind(bytes.map(<[u8]>::to_vec)),
                Value::Bool(is) => query.bind(is),
                Value::Number(number) => query.bind(number),
                Value::Real(number) => query.bind(number),
                Value::OptionalReal(number) => query.bind(number),
                Value::Texts(texts) => query.bind(texts.to_vec()),
                Value::OptionalTextEach(texts) => query.bind(texts.to_vec()),
                Value::BytesEach(all) => query.bind(all.to_vec()),
                Value::OptionalBytesEach(all) => query.bind(all.to_vec()),
                Value::Numbers(numbers) => query.bind(numbers.to_vec()),
                Value::SomeNumbers(numbers) => query.bind(numbers.map(<[i64]>::to_vec)),
                Value::Reals(numbers) => query.bind(numbers.to_vec()),
                Value::OptionalReals(numbers) => query.bind(numbers.to_vec()),
            };
        }
        Ok(query.fetch_all(executor).await?.into_iter().map(Row::Sqlx).collect())
    }

    impl Ask for sqlx::Transaction<'_, Postgres> {
        async fn ask(&mut self, doing: &'static str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
            rows(&mut **self, sql, values).await.map_err(|error| failed(doing, error))
        }
    }

    pub(crate) fn failed(doing: &str, error: sqlx::Error) -> StoreError {
        if let sqlx::Error::Database(answer) = &error
            && let Some(code) = answer.code()
        {
            return refused(doing, &SqlState::from_code(&code), error);
        }
        let kind = match &error {
            sqlx::Error::Io(cause) if cause.kind() == std::io::ErrorKind::TimedOut => ErrorKind::Timeout,
            sqlx::Error::PoolTimedOut => ErrorKind::Timeout,
            sqlx::Error::Configuration(_) | sqlx::Error::Tls(_) => ErrorKind::Misconfigured,
            _ => ErrorKind::Unavailable,
        };
        StoreError::caused(kind, BACKEND, format!("expected an answer to {doing}"), error)
    }
}
