//! Partitions: when they are closed and dropped, and the walk through all of them.

use super::errors::corrupt;
use super::rows::{RecordColumns, column, from_server, micros};
use super::session::Session;
use super::{BACKEND, PostgresStore, SHARED, keys, statements};
use hapax::seam::random;
use hapax_store::back_off::BackOff;
use hapax_store::*;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::types::Type;

/// The number of partitions that one call of `expire` closes, looks through or drops, and of those
/// that it tries to.
const STEPS_MAX: usize = 4;
const STEPS_TRIED: usize = 16;
/// The time that a call watches others' transactions that are in the way, while nobody waits.
const PATIENCE: Duration = Duration::from_millis(300);
/// The waits between two looks at them.
const LOOKS: BackOff = BackOff { first: Duration::from_millis(10), max: Duration::from_millis(80) };
/// The time that a step waits for others, while everybody waits for it; and its tries.
const LOCK_TIMEOUT: Duration = Duration::from_millis(20);
const TRIES: u32 = 3;
/// The largest page of a scan.
const PAGE_MAX: usize = 100_000;

/// A step of the clean-up.
struct Step {
    family: i32,
    bucket: i32,
    what: String,
}

impl PostgresStore {
    /// Closes partitions that have been open for their length, and drops those whose records have
    /// all expired. Steps that others are in the way of are put off, and the others are taken.
    pub(super) async fn clean_up(&self, limit: usize) -> Result<Expired, StoreError> {
        let session = self.session().await?;
        let (mut expired, mut taken, mut in_the_way) = (Expired::default(), 0, None);
        let until = Instant::now() + PATIENCE.min(self.options.timeout);
        // A partition is the unit that this store removes at a time.
        for step in self.due(&session, STEPS_TRIED).await? {
            if taken == limit.min(STEPS_MAX) {
                break;
            }
            match self.step(&session, &step, until).await {
                Ok(records) => (expired.records, taken) = (expired.records + records, taken + 1),
                Err(error) if error.kind() == ErrorKind::Conflict => in_the_way = Some(error),
                Err(error) => return Err(error),
            }
        }
        let left = match &in_the_way {
            None => self.due(&session, 1).await?,
            Some(_) => Vec::new(),
        };
        session.finish();
        expired.more = !left.is_empty();
        in_the_way.map_or(Ok(expired), Err)
    }

    async fn due(&self, session: &Session<'_>, steps: usize) -> Result<Vec<Step>, StoreError> {
        let (length_us, steps) = (micros(self.options.partition), steps as i64);
        let sql = statements::due(&self.names);
        let rows = session
            .query("look for what has expired", &sql, &[(&length_us, Type::FLOAT8), (&steps, Type::INT8)])
            .await?;
        let step = |row| {
            Ok(Step { family: column(row, "family")?, bucket: column(row, "bucket")?, what: column(row, "what")? })
        };
        rows.iter().map(step).collect()
    }

    /// Takes a step. Returns the number of records that it removed.
    async fn step(&self, session: &Session<'_>, step: &Step, until: Instant) -> Result<u64, StoreError> {
        let (names, settings) = (&self.names, session.settings());
        let (family, bucket) = (step.family, step.bucket);
        let lock_timeout = LOCK_TIMEOUT.min(self.options.timeout).as_millis();
        match step.what.as_str() {
            "close" => {
                // A new name each time, so not worth keeping prepared. Whatever is written after
                // this look does no harm.
                let rows = session.ask("look into a partition", &statements::is_filled(names, family, bucket)).await?;
                if !column::<bool>(one(&rows)?, "is_filled")? {
                    let reopen = statements::reopen(settings, names, family, bucket);
                    return session.batch("begin a partition", &reopen).await.map(|()| 0);
                }
                let make = statements::make(settings, names, family, bucket.saturating_add(1));
                self.briefly(session, "make a partition", &make).await?;
                self.nobody_stays(session, &statements::writers(names, family), until).await?;
                let rotate = statements::rotate(settings, names, family, bucket, lock_timeout);
                self.briefly(session, "begin a partition", &rotate).await.map(|_| 0)
            }
            "survey" => {
                let survey = statements::survey(settings, names, family, bucket);
                session.batch("look through a partition", &survey).await.map(|()| 0)
            }
            _ => {
                self.nobody_stays(session, &statements::users(names, family, bucket), until).await?;
                let drop = statements::drop(settings, names, family, bucket, lock_timeout);
                let dropped = self.briefly(session, "drop a partition", &drop).await?;
                Ok(dropped.and_then(|records| records.parse().ok()).unwrap_or(0))
            }
        }
    }

    /// Watches transactions that are in the way until all of those that are there now have ended:
    /// whoever asked for a lock instead would have everybody else wait behind him.
    async fn nobody_stays(&self, session: &Session<'_>, holders: &str, until: Instant) -> Result<(), StoreError> {
        let mut stay: Option<HashSet<String>> = None;
        for looks in 1.. {
            let rows = session.ask("look who is at work", holders).await?;
            let there = rows.iter().map(|row| column(row, "holder")).collect::<Result<HashSet<String>, _>>()?;
            let staying = match stay {
                None => there,
                Some(before) => before.intersection(&there).cloned().collect(),
            };
            if staying.is_empty() {
                break;
            }
            if looks > 1 && Instant::now() >= until {
                let what = format!("expected nobody to be in the way, got {} long transactions", staying.len());
                return Err(StoreError::new(ErrorKind::Conflict, BACKEND, what));
            }
            stay = Some(staying);
            tokio::time::sleep(LOOKS.after(looks, random::any())).await;
        }
        Ok(())
    }

    /// Runs a transaction that waits for locks for a moment only. It is tried again, some time
    /// later, if somebody has them. Returns what was dropped, if anything.
    async fn briefly(&self, session: &Session<'_>, doing: &str, sql: &str) -> Result<Option<String>, StoreError> {
        for tries in 1.. {
            match session.batch_answer(doing, sql, "dropped").await {
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    session.batch("roll back", "ROLLBACK").await?;
                    if tries == TRIES {
                        return Err(error);
                    }
                    tokio::time::sleep(LOOKS.after(tries, random::any())).await;
                }
                answer => return answer,
            }
        }
        Ok(None)
    }

    /// Returns the rows behind a cursor, of one partition.
    pub(super) async fn page(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let names = &self.names;
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
            let (kept, now) = (RecordColumns::of(row)?.kept()?, from_server(column(row, "now")?));
            if now < kept.kept_until() {
                let id = keys::id_of(column(row, "key")?);
                let id = id.ok_or_else(|| corrupt("expected a scope and an id, got a shorter key"))?;
                let key =
                    RecordKey { scope: Scope::from_stored(column(row, "name")?)?, id: StoredId::from_stored(id)? };
                page.listed.extend(kept.listed(key, now));
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
    rows.first().ok_or_else(|| corrupt("expected a row, got none"))
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
        if place.family >= SHARED && key.len() <= keys::KEY_BYTES_MAX { Ok(place) } else { Err(wrong()) }
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
