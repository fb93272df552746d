//! Partitions: when they are closed and dropped, and the walk through all of them.

use super::rows::{column, from_server, micros, state_of};
use super::session::Session;
use super::{BACKEND, PostgresStore, SHARED, keys, statements};
use hapax_store::*;
use std::time::Duration;
use tokio_postgres::types::Type;

/// The number of partitions that one call of `expire` closes, looks through or drops.
const STEPS_MAX: usize = 4;
/// The time that a rotation, which stops all writers, waits for readers.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// The largest page of a scan.
const PAGE_MAX: usize = 100_000;

/// A step of the clean-up.
struct Step {
    family: i32,
    bucket: i32,
    what: String,
    records: Option<i64>,
}

impl PostgresStore {
    /// Closes partitions that have been open for their length, and drops those whose records have
    /// all expired.
    pub(super) async fn clean_up(&self, limit: usize) -> Result<Expired, StoreError> {
        let session = self.session().await?;
        let mut expired = Expired::default();
        // A partition is the unit that this store removes at a time.
        for step in self.due(&session, limit.min(STEPS_MAX)).await? {
            expired.records += self.step(&session, &step).await?;
        }
        expired.more = !self.due(&session, 1).await?.is_empty();
        session.finish();
        Ok(expired)
    }

    async fn due(&self, session: &Session<'_>, steps: usize) -> Result<Vec<Step>, StoreError> {
        let (length_us, steps) = (micros(self.options.partition), steps as i64);
        let sql = statements::due(&self.options.names);
        let rows = session
            .query("look for what has expired", &sql, &[(&length_us, Type::FLOAT8), (&steps, Type::INT8)])
            .await?;
        let step = |row| {
            Ok(Step {
                family: column(row, "family")?,
                bucket: column(row, "bucket")?,
                what: column(row, "what")?,
                records: column(row, "records")?,
            })
        };
        rows.iter().map(step).collect()
    }

    /// Takes a step. Returns the number of records that it removed.
    async fn step(&self, session: &Session<'_>, step: &Step) -> Result<u64, StoreError> {
        let names = &self.options.names;
        let (family, bucket) = (step.family, step.bucket);
        match step.what.as_str() {
            "close" => self.rotate(session, family, bucket).await.map(|()| 0),
            "survey" => {
                let survey = statements::survey(session.settings(), names, family, bucket);
                session.batch("look through a partition", &survey).await.map(|()| 0)
            }
            _ => {
                self.exclusively(session, family).await?;
                // Behind a pooler the server may be another one by now, which has lost what made
                // this partition an old one.
                let is_over = statements::is_over(names, family, bucket);
                if !session.ask_once("look at a partition", &is_over).await? {
                    return session.batch("drop a partition", "COMMIT").await.map(|()| 0);
                }
                session.batch("drop a partition", &statements::drop(names, family, bucket)).await?;
                Ok(step.records.and_then(|records| u64::try_from(records).ok()).unwrap_or(0))
            }
        }
    }

    /// Begins a transaction during which there is no other writer.
    async fn exclusively(&self, session: &Session<'_>, family: i32) -> Result<(), StoreError> {
        let lock_timeout = LOCK_TIMEOUT.min(self.options.timeout).as_millis();
        let begin = statements::begin_exclusive(session.settings(), &self.options.names, family, lock_timeout);
        session.batch("stop writers for a moment", &begin).await
    }

    async fn rotate(&self, session: &Session<'_>, family: i32, bucket: i32) -> Result<(), StoreError> {
        let names = &self.options.names;
        self.exclusively(session, family).await?;
        let rows = session.query_within("find the last partition", &statements::last(names, family), &[]).await?;
        let last: Option<i32> = column(one(&rows)?, "max")?;
        if last != Some(bucket) {
            // Another process was faster.
            return session.batch("begin a partition", "COMMIT").await;
        }
        // A new name each time, so not worth keeping prepared.
        let filled = statements::is_filled(names, family, bucket);
        let sql = match session.ask_once("look into a partition", &filled).await? {
            true => statements::rotate(names, family, bucket),
            false => statements::reopen(names, family, bucket),
        };
        session.batch("begin a partition", &sql).await
    }

    /// Returns the rows behind a cursor, of one partition.
    pub(super) async fn page(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let names = &self.options.names;
        let limit = limit.clamp(1, PAGE_MAX);
        let at = from.map_or(Ok(Place::default()), Place::decode)?;
        let session = self.session().await?;
        let buckets = session
            .query(
                "find a partition",
                &statements::bucket_from(names),
                &[(&at.family, Type::INT4), (&at.bucket, Type::INT4)],
            )
            .await?;
        let Some(bucket) = buckets.first() else {
            session.finish();
            return Ok(Listing::default());
        };
        let (family, bucket): (i32, i32) = (column(bucket, "family")?, column(bucket, "bucket")?);
        // It may have been dropped, and then the scan goes on at the beginning of the next one.
        let at =
            if (family, bucket) == (at.family, at.bucket) { at } else { Place { family, bucket, ..Place::default() } };
        let records = session
            .query(
                "scan",
                &statements::page(names, family),
                &[(&bucket, Type::INT4), (&at.key, Type::BYTEA), (&(limit as i64), Type::INT8)],
            )
            .await?;
        session.finish();

        let mut page = Listing::default();
        for row in &records {
            let left = from_server(column(row, "expires_at")?).since(from_server(column(row, "now")?));
            if !left.is_zero() {
                let state = state_of(column(row, "state")?, column(row, "attempt")?)?;
                let id = keys::id_of(column(row, "key")?);
                let id = id.ok_or_else(|| super::errors::corrupt("expected a scope and an id, got a shorter key"))?;
                let key =
                    RecordKey { scope: Scope::from_stored(column(row, "name")?)?, id: StoredId::from_stored(id)? };
                page.listed.push(Listed::new(key, state, left));
            }
        }
        page.next = Some(match records.last().filter(|_| records.len() == limit) {
            Some(row) => Place { family, bucket, key: column(row, "key")? }.encode(),
            // There is always a last partition, and behind it nothing is found.
            None => Place { family, bucket: bucket.saturating_add(1), ..Place::default() }.encode(),
        });
        Ok(page)
    }
}

/// Returns the row of an answer that has exactly one.
pub(super) fn one(rows: &[tokio_postgres::Row]) -> Result<&tokio_postgres::Row, StoreError> {
    rows.first().ok_or_else(|| super::errors::corrupt("expected a row, got none"))
}

/// The position of a scan. Partitions are walked through in the order of their numbers: a row is
/// only ever moved into the last one, so a scan that has not come to it yet comes to it later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    family: i32,
    bucket: i32,
    key: Vec<u8>,
}

impl Place {
    pub(super) fn encode(&self) -> Cursor {
        let numbers = [self.family, self.bucket].map(i32::to_be_bytes).concat();
        Cursor([numbers, self.key.clone()].concat())
    }

    pub(super) fn decode(cursor: &Cursor) -> Result<Self, StoreError> {
        let wrong = || {
            let what = format!("no scan got to the cursor {}", cursor.0.escape_ascii());
            StoreError::new(ErrorKind::Corrupt, BACKEND, what)
        };
        let (numbers, key) = cursor.0.split_at_checked(8).ok_or_else(wrong)?;
        let number = |at: usize| numbers[at..at + 4].try_into().map(i32::from_be_bytes).map_err(|_| wrong());
        let place = Place { family: number(0)?, bucket: number(4)?, key: key.to_vec() };
        match place.family >= SHARED && key.len() <= keys::KEY_BYTES_MAX {
            true => Ok(place),
            false => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_a_place() {
        for key in [b"".as_slice(), b"\0\xff", &[7; 53]] {
            let place = Place { family: 0, bucket: i32::MAX, key: key.to_vec() };
            assert_eq!(Place::decode(&place.encode()).unwrap(), place);
        }
        for wrong in [vec![], vec![0; 7], vec![0xff; 8], vec![0; 8 + 54]] {
            assert_eq!(Place::decode(&Cursor(wrong)).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
