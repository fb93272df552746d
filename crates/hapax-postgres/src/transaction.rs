//! A caller's transaction, of either driver: the statements that are sent to it, and the rows that
//! come back.

use super::errors::corrupt;
use hapax_store::StoreError;
use tokio_postgres::types::{ToSql, Type};

/// A transaction that the caller has begun and will commit: of tokio-postgres, of
/// deadpool-postgres, or, with the feature `sqlx`, of sqlx. A savepoint is one, too. Transactions
/// of others call the same functions [by SQL](crate::sql).
///
/// Since it is a transaction and not a connection, a mark cannot be committed by itself by mistake.
pub trait Transaction: asking::Ask {}

impl<T: asking::Ask> Transaction for T {}

/// A client of tokio-postgres, one of a pool of deadpool-postgres, or, with the feature `sqlx`, a
/// pool of sqlx: for calls that are a transaction of their own.
///
/// A program without any has one by [`PostgresOptions::connect`](crate::PostgresOptions::connect).
pub trait Client: asking::Call {}

impl<C: asking::Call> Client for C {}

/// Says once what values a statement may have, and as what each driver takes them.
macro_rules! values {
    ($($kind:ident($of:ty): $type:ident,)+) => {
        /// A value in a statement.
        #[derive(Clone, Copy, Debug)]
        pub enum Value<'v> {
            $($kind($of),)+
        }

        impl Value<'_> {
            fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
                match self {
                    $(Value::$kind(value) => (value, Type::$type),)+
                }
            }

            #[cfg(feature = "sqlx")]
            fn bound<'q>(self, query: sqlx_driver::Query<'q>) -> sqlx_driver::Query<'q> {
                match self {
                    $(Value::$kind(value) => query.bind(value),)+
                }
            }
        }
    };
}

values!(
    Text(&'v str): TEXT,
    OptionalText(Option<&'v str>): TEXT,
    Bytes(&'v [u8]): BYTEA,
    OptionalBytes(Option<&'v [u8]>): BYTEA,
    Bool(bool): BOOL,
    Number(i64): INT8,
    Real(f64): FLOAT8,
    OptionalReal(Option<f64>): FLOAT8,
    Texts(&'v [String]): TEXT_ARRAY,
    OptionalTextEach(&'v [Option<String>]): TEXT_ARRAY,
    BytesEach(&'v [Vec<u8>]): BYTEA_ARRAY,
    OptionalBytesEach(&'v [Option<Vec<u8>>]): BYTEA_ARRAY,
    Numbers(&'v [i64]): INT8_ARRAY,
    SomeNumbers(Option<&'v [i64]>): INT8_ARRAY,
    Reals(&'v [f64]): FLOAT8_ARRAY,
    OptionalReals(&'v [Option<f64>]): FLOAT8_ARRAY,
);

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

/// Returns the value that a function answered.
pub(super) fn answer<T: Column>(rows: &[Row]) -> Result<T, StoreError> {
    rows.first().ok_or_else(|| corrupt("expected an answer, got none"))?.get("answer")
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

    /// The driver's part of a client.
    pub trait Call: Sync {
        /// Asks for rows, in a transaction of its own.
        fn call(
            &self,
            doing: &str,
            sql: &str,
            values: &[Value<'_>],
        ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;

        /// Runs statements that begin a transaction and commit it. If one fails, it is undone.
        fn run(&self, doing: &str, sql: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
    }
}

pub(super) mod tokio_driver {
    use super::asking::{Ask, Call};
    use super::*;
    use crate::errors::failed;
    use tokio_postgres::{Error, GenericClient, Statement};

    /// Asks any client that can run a statement.
    pub(crate) async fn rows(client: &impl GenericClient, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let values: Vec<_> = values.iter().map(Value::typed).collect();
        Ok(client.query_typed(sql, &values).await?.into_iter().map(Row::Tokio).collect())
    }

    /// Prepares a statement that a connection of a pool keeps: to parse and plan one anew takes as
    /// long as to run it.
    pub(crate) async fn kept(
        client: &deadpool_postgres::Client,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Statement, Error> {
        let types: Vec<Type> = values.iter().map(|value| value.typed().1).collect();
        client.prepare_typed_cached(sql, &types).await
    }

    /// Asks by a statement that the connection keeps.
    pub(crate) async fn rows_by(
        client: &impl GenericClient,
        kept: &Statement,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        let values: Vec<_> = values.iter().map(|value| value.typed().0).collect();
        Ok(client.query(kept, &values).await?.into_iter().map(Row::Tokio).collect())
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

    impl Call for tokio_postgres::Client {
        async fn call(&self, doing: &str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
            rows(self, sql, values).await.map_err(|error| failed(doing, error))
        }

        async fn run(&self, doing: &str, sql: &str) -> Result<(), StoreError> {
            let done = self.batch_execute(sql).await;
            if done.is_err() {
                // The first failure is the one to report.
                let _ = self.batch_execute("ROLLBACK").await;
            }
            done.map_err(|error| failed(doing, error))
        }
    }

    impl Call for deadpool_postgres::Client {
        async fn call(&self, doing: &str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
            tokio_postgres::Client::call(self, doing, sql, values).await
        }

        async fn run(&self, doing: &str, sql: &str) -> Result<(), StoreError> {
            tokio_postgres::Client::run(self, doing, sql).await
        }
    }
}

#[cfg(feature = "sqlx")]
pub(super) mod sqlx_driver {
    use super::asking::{Ask, Call};
    use super::*;
    use crate::BACKEND;
    use crate::errors::TABLES;
    use crate::store::errors::refused;
    use hapax_store::ErrorKind;
    use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgExecutor, Postgres};
    use tokio_postgres::error::SqlState;

    pub(super) type Query<'q> = sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments>;

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
            query = value.bound(query);
        }
        Ok(query.fetch_all(executor).await?.into_iter().map(Row::Sqlx).collect())
    }

    impl Ask for sqlx::Transaction<'_, Postgres> {
        async fn ask(&mut self, doing: &'static str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
            rows(&mut **self, sql, values).await.map_err(|error| failed(doing, error))
        }
    }

    impl Call for sqlx::PgPool {
        async fn call(&self, doing: &str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
            rows(self, sql, values).await.map_err(|error| failed(doing, error))
        }

        async fn run(&self, doing: &str, sql: &str) -> Result<(), StoreError> {
            let ran = async {
                // Closed in any case: a transaction that has failed may be open on it.
                let mut connection = self.acquire().await?.detach();
                connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await?;
                connection.close().await
            };
            ran.await.map_err(|error| failed(doing, error))
        }
    }

    pub(crate) fn failed(doing: &str, error: sqlx::Error) -> StoreError {
        if let sqlx::Error::Database(answer) = &error
            && let Some(code) = answer.code()
        {
            return refused(doing, TABLES, &SqlState::from_code(&code), error);
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
