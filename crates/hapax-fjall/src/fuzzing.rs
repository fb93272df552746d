//! Records of a directory of buckets, for the fuzz target `records`.

use super::buckets::Row;

/// Does what the fuzz target `records` does with its input, if it is for this crate; returns true
/// if the decoder took it.
pub fn fuzz(bytes: &[u8]) -> bool {
    bytes.split_first().is_some_and(|(which, bytes)| *which == b'b' && bucket(bytes))
}

/// The row that is kept in a bucket of itself.
fn bucket(bytes: &[u8]) -> bool {
    let Ok(row) = Row::decode(bytes, super::BACKEND) else { return false };
    assert_eq!(row.encode().as_slice(), bytes);
    assert!(row.opened <= row.ends_by && row.opened <= row.seen);
    let _ = row.is_over(row.seen);
    true
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_of_the_fuzz_target_records() {
        let mut taken = 0;
        let files = testkit::corpus::replay("records", |bytes| taken += usize::from(super::fuzz(bytes)));
        assert!(files == 0 || taken > 0, "of {files} none is anything");
    }
}
