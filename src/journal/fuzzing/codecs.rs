//! Fuzzing of each codec of the journal with any bytes: what it decodes, it encodes as it was.

use crate::journal::encoding::format::{BLOCK_HEADER_BYTES, BlockHeader, HEADER_BYTES, Header, MARK_BYTES, Mark};
use crate::journal::encoding::payload::{Kind, runs};

/// Does the work of the fuzz target `journal` with its input: a letter that selects a codec, and
/// bytes for it. Returns true if the codec accepted them.
pub(crate) fn fuzz(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    match which {
        b'h' => header(bytes),
        b'm' => mark(bytes),
        b'b' => block(bytes),
        b'p' => payload(bytes),
        _ => false,
    }
}

/// Returns a fixed number of bytes: those that there are, and zeros.
fn padded<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}

fn header(bytes: &[u8]) -> bool {
    let bytes = padded::<HEADER_BYTES>(bytes);
    let Ok(header) = Header::decode(&bytes) else { return false };
    // A word without a meaning is not kept.
    assert_eq!(Header::decode(&header.encode()), Ok(header));
    true
}

fn mark(bytes: &[u8]) -> bool {
    let bytes = padded::<MARK_BYTES>(bytes);
    let Ok(mark) = Mark::decode(&bytes) else { return false };
    assert_eq!(Mark::decode(&mark.encode()), Ok(mark));
    true
}

/// Checks a block: its header, and its payload.
fn block(bytes: &[u8]) -> bool {
    let head = padded::<BLOCK_HEADER_BYTES>(bytes);
    let payload = bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default();
    let Some(block) = BlockHeader::decode(&head) else { return false };
    // Times beyond the last one become the last one: then it is another block, and not valid.
    let again = BlockHeader::decode(&block.encode()).expect("what was written is a header");
    assert_eq!(again, block);
    assert!(block.start() <= block.number);
    let salt = 8;
    assert!(block.seal(payload, salt).holds(payload, salt));
    assert!(!block.seal(payload, salt).holds(&[payload, b"x"].concat(), salt));
    true
}

/// Checks runs, whose lengths say where the next one begins.
fn payload(bytes: &[u8]) -> bool {
    let (mut ids, mut valid) = (0, 0);
    for run in runs(bytes) {
        let Some(run) = run else { return false };
        let listed = run.ids().count() + run.fingerprinted().count();
        assert_eq!(run.len(), listed as u64);
        assert!(run.accepted() <= run.len());
        assert_eq!(run.position().is_some(), run.kind == Kind::Position);
        assert_eq!(run.time_base().is_some(), run.kind == Kind::TimeBase);
        ids += listed;
        valid += 1;
    }
    assert!(16 * ids <= bytes.len(), "more ids than there are bytes");
    valid > 0
}
