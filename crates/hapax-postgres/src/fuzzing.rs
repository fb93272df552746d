//! Columns of messages, for the fuzz target `records`. The driver has checked their types. From
//! them hapax makes times and numbers of attempts, and an error's text on the way back.

use super::message::kept_error;
use super::store::fuzzing::{cursor, record};
use crate::claims::queue::attempts;
use crate::claims::retry::Retry;
use crate::mark_result::time;
use std::time::{Duration, SystemTime};

/// Does what the fuzz target `records` does with its input, if it is for this crate; returns true
/// if the decoder took it.
pub fn fuzz(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    match which {
        b'p' => record(bytes),
        b'q' => cursor(bytes),
        b'm' => message(bytes),
        _ => false,
    }
}

/// Checks a message's columns: attempts 4 | microseconds 8 | the text of an error.
fn message(bytes: &[u8]) -> bool {
    let Some((numbers, text)) = bytes.split_first_chunk::<12>() else { return false };
    let tried = i32::from_le_bytes(std::array::from_fn(|i| numbers[i]));
    let micros = i64::from_le_bytes(std::array::from_fn(|i| numbers[4 + i]));
    let at = time(micros);
    assert_eq!(micros < 0, at < SystemTime::UNIX_EPOCH);
    assert!(Retry::DEFAULT.delay(attempts(tried)) <= Duration::from_secs(60));
    let text = String::from_utf8_lossy(text);
    let kept = kept_error(&text);
    // Each zero byte takes three bytes in the text that is kept.
    assert!(kept.len() <= 3 * 4_096 && !kept.contains('\0'));
    assert!(text.len() > 4_096 || text.replace('\0', "\u{fffd}") == kept);
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
