//! The time for which marks are kept.

use super::marks::SLOTS;
use super::statements;
use super::tables::Tables;
use crate::BACKEND;
use crate::errors::{corrupt, state};
use crate::store::options::within;
use crate::transaction::{Client, Value, answer};
use hapax_store::StoreError;
use hapax_store::backend::option;
use std::time::Duration;
use tokio_postgres::error::SqlState;

/// Steps that one call takes: a partition begins in three, and goes in two.
const STEPS_MAX: usize = 16;
/// The step that is none, since somebody is in the way.
const PUT_OFF: &str = "put off";
/// The largest number of `partition`s in `keep`: the slots, less one that is written into, the next
/// one, and two for calls that come late.
const PARTITIONS_MAX: u32 = SLOTS - 4;
pub(crate) const LONGEST: Duration = Duration::from_secs(3_650 * 86_400);

/// The time for which an id is a duplicate, and the time for which a partition is written into. A
/// mark may [expire before](crate::inbox::NewMark::keep_for); its row goes with its partition.
///
/// ```no_run
/// use hapax_postgres::{Retention, Tables};
/// use std::time::Duration;
///
/// # async fn example(client: &tokio_postgres::Client) -> Result<(), hapax_store::StoreError> {
/// let day = Duration::from_secs(86_400);
/// let retention = Retention::new(7 * day, day)?; // eight or nine partitions
/// while retention.expire(client, &Tables::new("public", "shop")?).await?.more {}
/// # Ok(())
/// # }
/// ```
///
/// Call [`expire`](Self::expire) regularly, several times as often as a partition is begun, from
/// one process or several. Without calls, the last partition grows, and nothing is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Read"))]
pub struct Retention {
    keep: Duration,
    partition: Duration,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// Partitions that were begun.
    pub begun: u32,
    /// Partitions that were emptied: their marks are gone.
    pub dropped: u32,
    /// True if there is more to do now: call again.
    pub more: bool,
    /// True if something is due, and something is in the way: a transaction that has marked and not
    /// ended, one that reads what is to be removed, or another call. No transaction waits for it.
    /// Call again as usual.
    pub put_off: bool,
}

impl Retention {
    /// Creates a retention: an id is a duplicate for at least `keep`, and a new partition is begun
    /// every `partition`. A mark is removed with its partition, at most `partition` plus the time
    /// between two calls later.
    ///
    /// Looking an id up takes a lookup in each partition, so an eighth to a half of `keep` is a
    /// good length. On a busy machine `once` took 0.2 ms with one partition, 0.3 ms with 8, and 0.9
    /// ms with 60; with 300 it would take 5 ms.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless both are between a second
    /// and 10 years, and `keep` is at most 60 times `partition`.
    pub fn new(keep: Duration, partition: Duration) -> Result<Self, StoreError> {
        for (option, length) in [("keep", keep), ("partition", partition)] {
            within(option, length, Duration::from_secs(1)..=LONGEST)?;
        }
        // Each id is looked for in all of them.
        let expected = format!("at most {PARTITIONS_MAX} times partition, {partition:?}");
        option::check(BACKEND, keep <= partition * PARTITIONS_MAX, "keep", &keep, &expected)?;
        Ok(Retention { keep, partition })
    }

    /// Begins and empties the partitions that are due, unless another transaction is in the way.
    ///
    /// # Guarantees
    ///
    /// It waits for nothing. No transaction that marks, and none that reads the marks, waits for
    /// it: a long one only puts steps off ([`Cleanup::put_off`]). While a transaction that has
    /// marked is open, ids are written into two partitions. While a transaction reads them,
    /// partitions begin, and none is emptied. (A transaction that begins to read the whole table
    /// while a partition is emptied waits for these milliseconds.)
    ///
    /// Each step is a transaction of its own, so it works behind a pooler of transactions, and the
    /// call may be dropped anywhere.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) if the role does not own the
    /// tables. Steps before the error are done.
    pub async fn expire(&self, client: &impl Client, tables: &Tables) -> Result<Cleanup, StoreError> {
        let mut cleanup = Cleanup::default();
        for _ in 0..STEPS_MAX {
            match self.step(client, tables).await?.as_str() {
                "begun" => cleanup.begun += 1,
                // A partition was made, is not written into any more, or is not looked at any more.
                "made" | "closed" | "left" => {}
                "emptied" => cleanup.dropped += 1,
                PUT_OFF => return Ok(Cleanup { put_off: true, ..cleanup }),
                "nothing" => return Ok(cleanup),
                other => return Err(corrupt(format!("expected a step of a rotation, got {other:?}"))),
            }
        }
        Ok(Cleanup { more: true, ..cleanup })
    }

    /// Has the server do a step. Returns which it was.
    async fn step(&self, client: &impl Client, tables: &Tables) -> Result<String, StoreError> {
        let values = [self.partition, self.keep].map(|length| Value::Number(length.as_micros() as i64));
        let sql = statements::ask(tables, "rotate", values.len());
        match client.call("begin and empty partitions", &sql, &values).await {
            Ok(rows) => answer(&rows),
            Err(error) if state(&error).as_ref().is_some_and(is_somebodys) => Ok(PUT_OFF.into()),
            Err(error) => Err(error),
        }
    }
}

/// Returns true if another transaction has what was to be locked, or has changed what was looked
/// at.
fn is_somebodys(state: &SqlState) -> bool {
    let states = [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    states.contains(state)
}

#[cfg(feature = "serde")]
crate::config::read!(Retention { keep: Duration, partition: Duration } => Retention::new(keep, partition));

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::ErrorKind;

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let second = Duration::from_secs(1);
        assert!(Retention::new(second, second).is_ok());
        assert!(Retention::new(60 * second, second).is_ok());
        for (keep, partition, what) in [
            (Duration::ZERO, second, "keep"),
            (second, Duration::MAX, "partition"),
            (61 * second, second, "at most 60 times partition"),
        ] {
            let error = Retention::new(keep, partition).unwrap_err();
            assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains(what), "{error}");
        }
    }
}
