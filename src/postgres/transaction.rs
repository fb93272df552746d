//! A caller's transaction, of whatever driver.

use crate::store::StoreError;

/// A transaction that the caller has begun and will commit: of tokio-postgres, of deadpool-postgres, or, with the
/// feature `sqlx`, of sqlx. A savepoint is one, too.
///
/// Since it is a transaction and not a connection, a mark cannot be committed by itself by mistake.
pub trait Transaction: asking::Ask {}

impl<T: asking::Ask> Transaction for T {}

/// A value in a statement.
#[derive(Clone, Copy, Debug)]
pub enum Value<'v> {
    Text(&'v str),
    Bytes(&'v [u8]),
    OptionalBytes(Option<&'v [u8]>),
}

pub(super) mod asking {
    use super::*;

    /// Public in a private module: nobody else implements it.
    pub trait Ask: Send {
        /// Says what goes before, if anything does, and then asks for a row's first column.
        fn ask(
            &mut self,
            doing: &'static str,
            before: &str,
            sql: &str,
            values: &[Value<'_>],
        ) -> impl Future<Output = Result<Option<i64>, StoreError>> + Send;
    }
}

mod tokio_postgres_driver {
    use super::asking::Ask;
    use super::*;
    use crate::postgres::errors::failed;
    use tokio_postgres::types::{ToSql, Type};

    type Typed<'v> = (&'v (dyn ToSql + Sync), Type);

    fn typed<'v>(value: &'v Value<'_>) -> Typed<'v> {
        match value {
            Value::Text(text) => (text, Type::TEXT),
            Value::Bytes(bytes) => (bytes, Type::BYTEA),
            Value::OptionalBytes(bytes) => (bytes, Type::BYTEA),
        }
    }

    impl Ask for tokio_postgres::Transaction<'_> {
        async fn ask(
            &mut self,
            doing: &'static str,
            before: &str,
            sql: &str,
            values: &[Value<'_>],
        ) -> Result<Option<i64>, StoreError> {
            let values: Vec<Typed<'_>> = values.iter().map(typed).collect();
            let before = async {
                match before {
                    "" => Ok(()),
                    before => self.batch_execute(before).await,
                }
            };
            // Both are sent before an answer is awaited: one round trip. If the first fails, the server refuses the
            // second, since the transaction has failed.
            let (before, rows) = tokio::join!(biased; before, self.query_typed(sql, &values));
            let rows = before.and(rows).map_err(|error| failed(doing, error))?;
            rows.first().map(|row| row.try_get(0)).transpose().map_err(|error| failed(doing, error))
        }
    }

    impl Ask for deadpool_postgres::Transaction<'_> {
        async fn ask(
            &mut self,
            doing: &'static str,
            before: &str,
            sql: &str,
            values: &[Value<'_>],
        ) -> Result<Option<i64>, StoreError> {
            let inner: &mut tokio_postgres::Transaction<'_> = self;
            inner.ask(doing, before, sql, values).await
        }
    }
}

#[cfg(feature = "sqlx")]
mod sqlx_driver {
    use super::asking::Ask;
    use super::*;
    use crate::postgres::BACKEND;
    use crate::postgres::errors::refused;
    use crate::store::ErrorKind;
    use sqlx::{AssertSqlSafe, Postgres, Row as _};
    use tokio_postgres::error::SqlState;

    impl Ask for sqlx::Transaction<'_, Postgres> {
        async fn ask(
            &mut self,
            doing: &'static str,
            before: &str,
            sql: &str,
            values: &[Value<'_>],
        ) -> Result<Option<i64>, StoreError> {
            // Texts are made in `statements` of names that were validated, and of numbers.
            if !before.is_empty() {
                let before = sqlx::raw_sql(AssertSqlSafe(before.to_owned()));
                before.execute(&mut **self).await.map_err(|error| failed(doing, error))?;
            }
            let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
            for value in values {
                query = match *value {
                    Value::Text(text) => query.bind(text.to_owned()),
                    Value::Bytes(bytes) => query.bind(bytes.to_vec()),
                    Value::OptionalBytes(bytes) => query.bind(bytes.map(<[u8]>::to_vec)),
                };
            }
            let row = query.fetch_optional(&mut **self).await.map_err(|error| failed(doing, error))?;
            row.map(|row| row.try_get(0)).transpose().map_err(|error| failed(doing, error))
        }
    }

    fn failed(doing: &str, error: sqlx::Error) -> StoreError {
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
