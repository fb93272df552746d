//! Records of a directory of buckets, for the fuzz target `records`.

use super::buckets::Row;

/// Checks the row that is stored in a bucket.
pub fn bucket(bytes: &[u8]) -> bool {
    let Ok(row) = Row::decode(bytes, super::BACKEND) else { return false };
    assert_eq!(row.encode().as_slice(), bytes);
    assert!(row.opened <= row.ends_by && row.opened <= row.seen);
    let _ = row.is_over(row.seen);
    true
}
