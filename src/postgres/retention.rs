//! How long marks are kept.

use super::errors::{corrupt, failed, misconfigured};
use super::queue::micros;
use super::statements;
use super::tables::Tables;
use crate::store::{ErrorKind, StoreError};
use std::time::Duration;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

/// Partitions that one call begins or drops.
const STEPS_MAX: i64 = 4;
/// How long a step, which stops writers, waits for transactions that write.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(3_650 * 86_400);

/// How long an id is a duplicate, and how long a partition is written into.
///
/// ```no_run
/// use hapax::postgres::{Retention, Tables};
/// use std::time::Duration;
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), hapax::store::StoreError> {
/// let day = Duration::from_secs(86_400);
/// let retention = Retention::new(7 * day, day)?; // eight or nine partitions
/// while retention.expire(client, &Tables::default()).await?.more {}
/// # Ok(())
/// # }
/// ```
///
/// Call [`expire`](Self::expire) regularly, several times as often as a partition is begun, from one process or several.
/// Until it is called, the last partition grows, and nothing is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    keep: Duration,
    partition: Duration,
}

/// What a call got done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// Partitions that were begun.
    pub begun: u32,
    /// Partitions that were dropped.
    pub dropped: u32,
    /// Whether there is more to do now.
    pub more: bool,
}

impl Retention {
    /// An id is a duplicate for at least `keep`, and a new partition is begun every `partition`. A mark goes with its
    /// partition, at most `partition` and what lies between two calls later. To look an id up takes a look at each
    /// partition: an eighth to a half of `keep` is a good length.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](ErrorKind::Misconfigured) unless both are between a second and 10 years.
    pub fn new(keep: Duration, partition: Duration) -> Result<Self, StoreError> {
        for (what, length) in [("keep", keep), ("partition", partition)] {
            if !(Duration::from_secs(1)..=LONGEST).contains(&length) {
                return Err(misconfigured(format!("{what} is between 1 s and {LONGEST:?}, not {length:?}")));
            }
        }
        Ok(Retention { keep, partition })
    }

    /// Begins and drops partitions that are due, at most four.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if transactions that mark took longer than half a second to end: it was put
    /// off, and other writers waited that long. [`Misconfigured`](ErrorKind::Misconfigured) if the role does not own
    /// the tables. What was done before the error is done.
    pub async fn expire(&self, client: &mut Client, tables: &Tables) -> Result<Cleanup, StoreError> {
        let mut cleanup = Cleanup::default();
        for (bucket, is_open) in self.due(client, tables).await? {
            match is_open {
                true => cleanup.begun += u32::from(rotate(client, tables, bucket).await?),
                false => {
                    exclusively(client, tables, "drop a partition", &statements::drop_bucket(tables, bucket)).await?;
                    cleanup.dropped += 1;
                }
            }
        }
        cleanup.more = !self.due(client, tables).await?.is_empty();
        Ok(cleanup)
    }

    async fn due(&self, client: &Client, tables: &Tables) -> Result<Vec<(i32, bool)>, StoreError> {
        let (partition, keep) = (micros(self.partition), micros(self.keep));
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&partition, Type::FLOAT8), (&keep, Type::FLOAT8), (&STEPS_MAX, Type::INT8)];
        let rows = client.query_typed(&statements::due(tables), &values).await;
        let wrong = |error: tokio_postgres::Error| corrupt(error.to_string());
        let step = |row: &tokio_postgres::Row| {
            Ok((row.try_get("bucket").map_err(wrong)?, row.try_get("is_open").map_err(wrong)?))
        };
        rows.map_err(|error| failed("look for what has expired", error))?.iter().map(step).collect()
    }
}

/// Whether it did: somebody else may have been faster.
async fn rotate(client: &mut Client, tables: &Tables, bucket: i32) -> Result<bool, StoreError> {
    let doing = "begin a partition";
    let next = bucket.checked_add(1).ok_or_else(|| {
        StoreError::new(ErrorKind::Corrupt, super::BACKEND, "there are no more numbers for partitions")
    })?;
    let attempt = async {
        let tx = client.transaction().await?;
        tx.batch_execute(&statements::hold_all_buckets(tables, LOCK_TIMEOUT.as_millis())).await?;
        if tx.query_typed(&statements::is_open(tables, bucket), &[]).await?.is_empty() {
            tx.rollback().await?;
            return Ok(false);
        }
        tx.batch_execute(&statements::rotate(tables, bucket, next)).await?;
        tx.commit().await?;
        Ok(true)
    };
    attempt.await.map_err(|error| failed(doing, error))
}

/// In a transaction in which nobody marks.
async fn exclusively(client: &mut Client, tables: &Tables, doing: &str, sql: &str) -> Result<(), StoreError> {
    let attempt = async {
        let tx = client.transaction().await?;
        tx.batch_execute(&statements::hold_all_buckets(tables, LOCK_TIMEOUT.as_millis())).await?;
        tx.batch_execute(sql).await?;
        tx.commit().await
    };
    attempt.await.map_err(|error| failed(doing, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let second = Duration::from_secs(1);
        assert!(Retention::new(second, second).is_ok());
        for (keep, partition, what) in [(Duration::ZERO, second, "keep"), (second, Duration::MAX, "partition")] {
            let error = Retention::new(keep, partition).unwrap_err();
            assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains(what), "{error}");
        }
    }
}
