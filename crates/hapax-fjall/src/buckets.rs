//! The choice of the bucket for a record, and the times at which buckets are closed and dropped.
//!
//! # Why no stale copy is ever taken for the current one
//!
//! 1. Every write goes to the newest bucket.
//! 2. So of two copies of a record, the one in the newer bucket is the later one. A look-up that
//!    goes from the newest bucket to the oldest and takes the first copy finds the copy that was
//!    written last. (Within a bucket, a copy replaces the one before.)
//! 3. Buckets are dropped from the oldest on, each when everything in it and in those before it has
//!    expired. So a copy is never gone while an older one, which it hides, is still there.
//!
//! Buckets by the time of *expiry* would take fewer look-ups where retentions differ much, but
//! would break the second rule: a record that is forgotten, or recorded again with a shorter
//! retention, would go to a bucket that is dropped before that of the copy which it hides. The
//! price: a record that expires early, such as a lease, stays on disk as long as the longest
//! retention in its bucket and in the buckets before.

use hapax::Timestamp;
use hapax_store::{ErrorKind, StoreError};
use std::time::Duration;

/// The largest number of open buckets. When it is reached, the newest bucket stays the newest for
/// longer.
pub(super) const MAX_BUCKETS: usize = 64;
/// The number of buckets per retention. A look-up of an absent id visits about this many buckets,
/// and disk space is given back in such portions of the retention.
const BUCKETS_PER_RETENTION: u32 = 8;
/// The shortest time that a bucket covers, unless a shorter one is configured.
const SHORTEST: Duration = Duration::from_secs(60);
/// The time by which a bucket's row runs ahead, so that it is written at most once in that time.
const SLACK: Duration = Duration::from_secs(1);

const VERSION: u8 = 1;
const ROW_BYTES: usize = 1 + 4 * 8;

/// The description of a bucket. It is stored in the bucket itself, in one batch with the records
/// that it describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The time of the first record.
    pub(super) opened: Timestamp,
    /// The time at which all of its records have expired.
    pub(super) ends_by: Timestamp,
    /// The longest time that a record in it is live.
    pub(super) longest: Duration,
    /// The largest time seen, within a second.
    pub(super) seen: Timestamp,
}

impl Row {
    /// Creates the row of a bucket without records.
    pub(super) fn new(now: Timestamp) -> Self {
        Row { opened: now, ends_by: now, longest: Duration::ZERO, seen: now }
    }

    /// Returns the row that is right once a record that lasts until `until` is written, or `None`
    /// if this row is right already.
    pub(super) fn with(self, until: Timestamp, now: Timestamp) -> Option<Self> {
        let is_right = until <= self.ends_by && until.since(now) <= self.longest && now < self.seen + SLACK;
        (!is_right).then(|| Row {
            ends_by: if until <= self.ends_by { self.ends_by } else { until + SLACK },
            longest: self.longest.max(until.since(now)),
            seen: self.seen.max(now),
            ..self
        })
    }

    /// Returns the row that is right once a claim has this token. Tokens are times, except where
    /// claims are faster than the clock, by a token each.
    pub(super) fn with_token(self, token: u64) -> Self {
        Row { seen: self.seen.max(Timestamp::from_micros(token) - SLACK), ..self }
    }

    /// Returns a token that is not smaller than any that was given until this row was written.
    pub(super) fn spent(self) -> u64 {
        (self.seen + SLACK).as_nanos() / 1_000
    }

    /// Returns true if all of its records have expired.
    pub(super) fn is_over(self, now: Timestamp) -> bool {
        self.ends_by <= now
    }

    /// Returns true if a record was ever written to it.
    pub(super) fn has_records(self) -> bool {
        self.opened < self.ends_by
    }

    pub(super) fn encode(self) -> [u8; ROW_BYTES] {
        debug_assert!(self.opened <= self.ends_by && self.opened <= self.seen, "decoding asks for the same");
        let longest = u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = [VERSION; ROW_BYTES];
        let numbers = [self.opened.as_nanos(), self.ends_by.as_nanos(), longest, self.seen.as_nanos()];
        for (field, number) in bytes[1..].chunks_exact_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if another version of hapax wrote it, [`ErrorKind::Corrupt`] if
    /// hapax did not write it.
    pub(super) fn decode(bytes: &[u8], backend: &'static str) -> Result<Self, StoreError> {
        let corrupt = || {
            let wrong =
                format!("a bucket's row has {ROW_BYTES} bytes and times in order, not {}", bytes.escape_ascii());
            StoreError::new(ErrorKind::Corrupt, backend, wrong)
        };
        match bytes.first() {
            Some(&VERSION) if bytes.len() == ROW_BYTES => {}
            Some(&version) if version != VERSION => {
                let wrong = format!("a bucket is of version {version}, this hapax knows {VERSION}");
                return Err(StoreError::new(ErrorKind::Misconfigured, backend, wrong));
            }
            _ => return Err(corrupt()),
        }
        let mut numbers = bytes[1..].chunks_exact(8).map(|field| field.iter().rfold(0, |n, &b| n << 8 | u64::from(b)));
        let mut next = || numbers.next().filter(|&n| n <= i64::MAX as u64).ok_or_else(corrupt);
        let (opened, ends_by) = (Timestamp::from_nanos(next()?), Timestamp::from_nanos(next()?));
        let (longest, seen) = (Duration::from_nanos(next()?), Timestamp::from_nanos(next()?));
        if opened <= ends_by && opened <= seen { Ok(Row { opened, ends_by, longest, seen }) } else { Err(corrupt()) }
    }
}

/// Returns true if the next records go to a new bucket: `rows` are those of all buckets, the oldest
/// first.
///
/// The newest bucket is filled for the configured time, or for an eighth of the longest lifetime
/// among all records.
pub(super) fn is_time_for_another(rows: &[Row], now: Timestamp, asked: Option<Duration>) -> bool {
    let Some(newest) = rows.last() else { return true };
    let longest = rows.iter().map(|row| row.longest).max().unwrap_or_default();
    let covers = asked.unwrap_or((longest / BUCKETS_PER_RETENTION).max(SHORTEST));
    newest.has_records() && rows.len() < MAX_BUCKETS && newest.opened + covers <= now
}

/// Returns the name of a bucket's keyspace.
pub(super) fn name(number: u64) -> String {
    format!("bucket-{number:016x}")
}

/// Returns the number of the bucket with this name, if it is a bucket's name.
pub(super) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("bucket-")?;
    u64::from_str_radix(digits, 16).ok().filter(|&number| self::name(number) == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for n in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
            assert_eq!(number(&name(n)), Some(n));
        }
        for other in ["", "bucket-", "bucket-1", "bucket-000000000000000G", "bucket-00000000000000001", "data"] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn a_row_is_written_at_most_once_a_second() {
        let row = Row::new(at(10)).with(at(3_610), at(10)).unwrap();
        assert!(row.ends_by >= at(3_610) && row.longest == HOUR);
        let until = Timestamp::from_nanos(3_610_900_000_000);
        assert_eq!(row.with(until, Timestamp::from_nanos(10_900_000_000)), None);
        let later = row.with(at(3_611), at(11)).unwrap();
        assert_eq!(later.seen, at(11));
        assert!(later.with(at(9_000), at(11)).unwrap().ends_by >= at(9_000));
    }

    #[test]
    fn tokens_beyond_the_clock_move_the_time_that_is_seen() {
        let row = Row::new(at(10));
        assert_eq!(row.with_token(11_000_000), row);
        assert_eq!(row.spent(), 11_000_000);
        for token in [11_000_001, 12_345_678] {
            assert_eq!(row.with_token(token).spent(), token);
        }
    }

    #[test]
    fn a_bucket_covers_an_eighth_of_the_longest_retention_or_what_is_asked_for() {
        let row = Row { longest: 8 * HOUR, ends_by: at(100_000), ..Row::new(at(0)) };
        assert!(!is_time_for_another(&[row], at(3_599), None));
        assert!(is_time_for_another(&[row], at(3_600), None));
        assert!(is_time_for_another(&[row], at(10), Some(Duration::from_secs(10))));
        assert!(is_time_for_another(&[], at(0), None));
        assert!(!is_time_for_another(&[Row::new(at(0))], at(1_000_000), None), "it has no records");
        assert!(!is_time_for_another(&[row; MAX_BUCKETS], at(1_000_000), None));
        let lease = Row { longest: Duration::from_secs(30), ends_by: at(30), ..Row::new(at(0)) };
        assert!(!is_time_for_another(&[lease], at(59), None));
        assert!(!is_time_for_another(&[row, lease], at(3_599), None), "the first one decides when both are dropped");
    }

    proptest! {
        #[test]
        fn rows_are_read_as_they_were_written_and_damage_is_an_error_or_another_row(
            times in any::<[u32; 4]>(), bit in 0..ROW_BYTES * 8, len in 0..ROW_BYTES,
        ) {
            let [opened, ends, longest, seen] = times.map(|n| u64::from(n) << 20);
            let opened = Timestamp::from_nanos(opened);
            let after = |nanos| opened + Duration::from_nanos(nanos);
            let row = Row { opened, ends_by: after(ends), longest: Duration::from_nanos(longest), seen: after(seen) };
            let mut bytes = row.encode();
            prop_assert_eq!(Row::decode(&bytes, "test").unwrap(), row);
            prop_assert!(Row::decode(&bytes[..len], "test").is_err());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(Row::decode(&bytes, "test").ok(), Some(row));
        }

        /// Checks the three rules above, on a model: buckets of maps, against one map.
        #[test]
        fn no_stale_copy_is_ever_found(steps in proptest::collection::vec((0..4u8, 0..3_000u64, 0..200u64, any::<bool>()), 1..300)) {
            let (mut now, mut current) = (at(0), HashMap::new());
            let mut buckets: Vec<(Row, HashMap<u8, Timestamp>)> = Vec::new();
            for (id, counts_for, passes, expires) in steps {
                now = now + Duration::from_secs(passes);
                let rows: Vec<Row> = buckets.iter().map(|bucket| bucket.0).collect();
                if is_time_for_another(&rows, now, None) {
                    buckets.push((Row::new(now), HashMap::new()));
                }
                let until = now + Duration::from_secs(counts_for);
                let (row, newest) = buckets.last_mut().unwrap();
                *row = row.with(until, now).unwrap_or(*row);
                newest.insert(id, until);
                current.insert(id, until);
                while expires && buckets.len() > 1 && buckets[0].0.is_over(now) {
                    buckets.remove(0);
                }
                for id in 0..4 {
                    let found = buckets.iter().rev().find_map(|bucket| bucket.1.get(&id));
                    let counts = |until: Option<&Timestamp>| until.copied().filter(|&until| now < until);
                    prop_assert_eq!(counts(found), counts(current.get(&id)));
                    prop_assert!(found.is_none() || found == current.get(&id));
                }
            }
            prop_assert!(buckets.len() < MAX_BUCKETS);
        }
    }
}
