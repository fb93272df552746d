//! Rows that a PostgreSQL server returns, for the fuzz target `records`: columns, of types that the
//! driver has checked, with any values.

use super::entries::Entry;
use super::partitions::Place;
use super::rows::{self, Columns, RecordColumns};
use hapax::Timestamp;
use hapax_store::backend::record::StoredRecord;
use hapax_store::{Cursor, StoredId};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Checks a record's columns: state 2 | bits that say which follow 1 | attempt 8 | token 8 | time
/// 8 | ordinal 8 | fingerprint's length 1 | fingerprint | result.
pub fn record(bytes: &[u8]) -> bool {
    let Some((numbers, rest)) = bytes.split_first_chunk::<36>() else { return false };
    let word = |at: usize| i64::from_le_bytes(std::array::from_fn(|i| numbers[at + i]));
    let flags = numbers[2];
    let columns = RecordColumns {
        state: i16::from_le_bytes([numbers[0], numbers[1]]),
        attempt: (flags & 1 != 0).then(|| word(3)),
        token: (flags & 8 == 0).then(|| word(11)),
        fingerprint: (flags & 2 != 0).then(|| &rest[..rest.len().min(usize::from(numbers[35]))]),
        result: (flags & 4 != 0).then(|| rest.to_vec()),
        expires_at: time(word(19)),
    };
    let _ = rows::index(word(27));
    let Ok(kept) = columns.kept() else { return false };
    written_alike(&kept);
    true
}

/// Returns a time as the driver reads it: from the server's 64 bits, which count microseconds from
/// 2000 on.
fn time(micros: i64) -> SystemTime {
    let epoch = UNIX_EPOCH + Duration::from_secs(946_684_800);
    let distance = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 { epoch - distance } else { epoch + distance }
}

/// Checks that a record that was read is written so that it would be read again.
fn written_alike(kept: &StoredRecord) {
    let entry = Entry { scope: 1, id: StoredId::new(b"a"), asking: 0..1 };
    let columns = Columns::of([(&entry, kept)].into_iter());
    let again = RecordColumns {
        state: columns.states[0],
        attempt: columns.attempts[0],
        token: columns.tokens[0],
        fingerprint: columns.fingerprints[0],
        result: columns.results[0].as_deref().map(<[u8]>::to_vec),
        expires_at: columns.times[0],
    };
    let read = again.kept().expect("what was written is a record");
    assert!((kept.until..=kept.until + Duration::from_micros(1)).contains(&read.until));
    assert_eq!(
        StoredRecord { until: Timestamp::default(), ..read },
        StoredRecord { until: Timestamp::default(), ..kept.clone() }
    );
}

pub fn cursor(bytes: &[u8]) -> bool {
    let Ok(place) = Place::decode(&Cursor(bytes.to_vec())) else { return false };
    assert_eq!(place.encode().0, bytes);
    true
}
