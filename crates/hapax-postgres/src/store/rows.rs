//! Records as arrays of columns, and rows as records: pure.

use super::entries::Entry;
use super::errors::corrupt;
use super::keys::Keys;
use hapax::Timestamp;
use hapax_store::backend::codec::{decode_trail, encode_trail};
use hapax_store::backend::record::{State, StoredRecord};
use hapax_store::{Fingerprint, StoreError};
use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_postgres::Row;

/// The values that a creating request inserts for an id without a record.
pub(super) struct Fresh<'r> {
    pub(super) attempt: Option<u64>,
    pub(super) fingerprint: Option<Fingerprint>,
    /// The result; of a claim what it leaves behind, which that column has until it is completed.
    pub(super) result: Option<Cow<'r, [u8]>>,
    pub(super) lasts: Duration,
}

const IN_PROGRESS: i16 = 1;
const FAILED: i16 = 2;
pub(super) const COMPLETED: i16 = 3;

/// The state with which a claim is inserted.
pub(super) const CLAIMED: i16 = IN_PROGRESS;

/// The longest time for which a record is kept, which is beyond any caller's needs: times end
/// in 2262.
const LASTS_MAX: Duration = Duration::from_secs(200 * 365 * 86_400);

/// Returns a duration in the server's unit, never shorter.
pub(super) fn micros(lasts: Duration) -> f64 {
    lasts.min(LASTS_MAX).as_nanos().div_ceil(1_000) as f64
}

/// Returns a time in the server's unit, never earlier.
pub(super) fn to_server(time: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(time.as_nanos().div_ceil(1_000))
}

/// Converts the server's time.
pub(super) fn from_server(time: SystemTime) -> Timestamp {
    time.into()
}

/// The stored state of an id.
pub(super) struct Found {
    /// Its position in the request.
    pub(super) at: usize,
    pub(super) bucket: i32,
    /// The bucket that is written into.
    pub(super) current: i32,
    pub(super) kept: StoredRecord,
    pub(super) now: Timestamp,
}

/// The columns of a record, as the driver reads them.
pub(super) struct RecordColumns<'r> {
    pub(super) state: i16,
    pub(super) attempt: Option<i64>,
    pub(super) token: Option<i64>,
    pub(super) fingerprint: Option<&'r [u8]>,
    pub(super) result: Option<Vec<u8>>,
    pub(super) expires_at: SystemTime,
}

impl<'r> RecordColumns<'r> {
    /// Reads the columns of a row.
    pub(super) fn of(row: &'r Row) -> Result<Self, StoreError> {
        Ok(RecordColumns {
            state: column(row, "state")?,
            attempt: column(row, "attempt")?,
            token: column(row, "token")?,
            fingerprint: column(row, "fingerprint")?,
            result: column(row, "result")?,
            expires_at: column(row, "expires_at")?,
        })
    }

    /// Returns the record in these columns.
    pub(super) fn kept(self) -> Result<StoredRecord, StoreError> {
        let trail = match (self.state, &self.result) {
            (IN_PROGRESS | FAILED, Some(trail)) => {
                let what = "a record that is not completed has what its claim leaves behind in the place of a result";
                Some(Box::new(decode_trail(trail).ok_or_else(|| corrupt(what))?))
            }
            _ => None,
        };
        Ok(StoredRecord {
            trail,
            state: state(self.state, self.attempt, self.result)?,
            token: u64::try_from(self.token.unwrap_or(0)).map_err(|_| corrupt("a token is never negative"))?,
            fingerprint: fingerprint(self.fingerprint)?,
            until: from_server(self.expires_at),
        })
    }
}

/// Reads a row of a look-up.
pub(super) fn found(row: &Row) -> Result<Found, StoreError> {
    Ok(Found {
        at: index(column(row, "n")?)?,
        bucket: column(row, "bucket")?,
        current: column(row, "current")?,
        kept: RecordColumns::of(row)?.kept()?,
        now: from_server(column(row, "now")?),
    })
}

/// Returns the index of an ordinal, which SQL counts from one.
pub(super) fn index(n: i64) -> Result<usize, StoreError> {
    n.checked_sub(1).and_then(|n| n.try_into().ok()).ok_or_else(|| corrupt(format!("no ordinal is {n}")))
}

/// Returns a column of a row.
pub(super) fn column<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, name: &str) -> Result<T, StoreError> {
    row.try_get(name).map_err(|error| {
        StoreError::caused(hapax_store::ErrorKind::Corrupt, super::BACKEND, format!("expected a column {name}"), error)
    })
}

fn state(state: i16, attempt: Option<i64>, result: Option<Vec<u8>>) -> Result<State, StoreError> {
    // Attempts are 64 bits; their value as a signed number does not matter.
    let attempt = attempt.map(i64::cast_unsigned);
    match (state, attempt) {
        (IN_PROGRESS, Some(attempt)) => Ok(State::InProgress { attempt }),
        (FAILED, _) => Ok(State::Failed),
        (COMPLETED, attempt) => Ok(State::Completed { attempt, result }),
        _ => Err(corrupt(format!("no record is in state {state} with attempt {attempt:?}"))),
    }
}

fn fingerprint(kept: Option<&[u8]>) -> Result<Option<Fingerprint>, StoreError> {
    let Some(bytes) = kept else { return Ok(None) };
    match bytes.try_into() {
        Ok(fingerprint) => Ok(Some(Fingerprint(fingerprint))),
        Err(_) => Err(corrupt(format!("a fingerprint has 16 bytes, not {}", bytes.len()))),
    }
}

/// Rows to be written, column by column.
pub(super) struct Columns<'r> {
    pub(super) keys: Keys<'r>,
    pub(super) states: Vec<i16>,
    pub(super) tokens: Vec<Option<i64>>,
    pub(super) attempts: Vec<Option<i64>>,
    pub(super) fingerprints: Vec<Option<&'r [u8]>>,
    pub(super) times: Vec<SystemTime>,
    pub(super) results: Vec<Option<Cow<'r, [u8]>>>,
}

impl<'r> Columns<'r> {
    pub(super) fn of(rows: impl Iterator<Item = (&'r Entry, &'r StoredRecord)>) -> Self {
        let mut columns = Columns {
            keys: Keys(Vec::new()),
            states: Vec::new(),
            tokens: Vec::new(),
            attempts: Vec::new(),
            fingerprints: Vec::new(),
            times: Vec::new(),
            results: Vec::new(),
        };
        rows.for_each(|(entry, kept)| columns.push(entry, kept));
        columns
    }

    fn push(&mut self, entry: &'r Entry, kept: &'r StoredRecord) {
        let trail = || kept.trail.as_deref().map(|trail| encode_trail(trail).into());
        let (state, attempt, result) = match &kept.state {
            State::InProgress { attempt } => (IN_PROGRESS, Some(*attempt), trail()),
            State::Failed => (FAILED, None, trail()),
            State::Completed { attempt, result } => (COMPLETED, *attempt, result.as_deref().map(Cow::Borrowed)),
        };
        self.keys.0.push(entry);
        self.states.push(state);
        // Below 2^63 for a quarter of a million years.
        self.tokens.push((kept.token != 0).then(|| kept.token.cast_signed()));
        self.attempts.push(attempt.map(u64::cast_signed));
        self.fingerprints.push(kept.fingerprint.as_ref().map(|fingerprint| fingerprint.0.as_slice()));
        self.times.push(to_server(kept.until));
        self.results.push(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shortened_by_a_unit_and_nothing_overflows() {
        assert_eq!(micros(Duration::from_nanos(1)), 1.0);
        assert_eq!(micros(Duration::from_micros(7)), 7.0);
        assert_eq!(micros(Duration::MAX), micros(LASTS_MAX));
        assert_eq!(to_server(Timestamp::from_nanos(1)), UNIX_EPOCH + Duration::from_micros(1));
        assert_eq!(from_server(to_server(Timestamp::from_micros(5))), Timestamp::from_micros(5));
        assert_eq!(from_server(UNIX_EPOCH - Duration::from_secs(1)), Timestamp::default());
        let last = Timestamp::from_nanos(u64::MAX);
        assert!(from_server(to_server(last)) <= last);
    }

    #[test]
    fn what_nobody_wrote_is_corrupt() {
        assert_eq!(index(1).unwrap(), 0);
        assert!(index(0).is_err() && index(i64::MIN).is_err());
        assert!(state(4, None, None).is_err());
        assert!(state(IN_PROGRESS, None, None).is_err());
        assert!(fingerprint(Some(&[0; 15])).is_err());
        assert_eq!(state(IN_PROGRESS, Some(-1), None).unwrap(), State::InProgress { attempt: u64::MAX });
        assert_eq!(fingerprint(Some(&[7; 16])).unwrap(), Some(Fingerprint([7; 16])));
    }
}
