//! The plan of what is uploaded of a file: what is new, in parts of bounded size. Pure.

use crate::manifest::Part;
use std::ops::Range;

/// Returns how many of the known parts stay, and which bytes are uploaded behind them.
///
/// A file that grows by a little with each publication would become many small parts. So the last
/// ones are uploaded again, together, if they are no larger than what is new: as with a binary
/// counter, a file has as many small parts as the logarithm of its length, and each byte is
/// uploaded as often at most.
pub(crate) fn plan(known: &[Part], bytes: u64, part_bytes_max: u64) -> (usize, Vec<Range<u64>>) {
    let mut kept = known.len();
    let mut from: u64 = known.iter().map(|part| part.bytes).sum();
    if from > bytes {
        // The file is not the one that was published.
        (kept, from) = (0, 0);
    }
    while from < bytes && kept > 0 {
        let last = known[kept - 1].bytes;
        if last > bytes - from || last >= part_bytes_max {
            break;
        }
        (kept, from) = (kept - 1, from - last);
    }
    let step = usize::try_from(part_bytes_max.max(1)).unwrap_or(usize::MAX);
    let starts = (from..bytes).step_by(step);
    (kept, starts.map(|start| start..bytes.min(start.saturating_add(part_bytes_max.max(1)))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Object;

    #[test]
    fn a_file_that_grows_has_few_parts_each_within_the_limit_and_is_uploaded_a_few_times() {
        for (step, max) in [(1, 1 << 10), (100, 1 << 10), (5_000, 1 << 10), (7, u64::MAX)] {
            let (mut parts, mut bytes, mut uploaded) = (Vec::<Part>::new(), 0, 0);
            for n in 1..=1_000_u64 {
                bytes += step;
                let (kept, ranges) = plan(&parts, bytes, max);
                parts.truncate(kept);
                let mut at: u64 = parts.iter().map(|part| part.bytes).sum();
                for range in ranges {
                    assert_eq!(range.start, at, "parts follow each other");
                    at = range.end;
                    let bytes = range.end - range.start;
                    assert!(bytes <= max && bytes > 0);
                    uploaded += bytes;
                    parts.push(Part { object: Object::default(), bytes, checksum: 0 });
                }
                assert_eq!(at, bytes);
                let full = bytes / max.min(bytes);
                assert!(parts.len() as u64 <= 2 * full + 12, "{} parts after {n} of {step}", parts.len());
            }
            assert!(uploaded <= 12 * bytes, "{uploaded} bytes were uploaded for {bytes}");
        }
        let part = Part { object: Object::default(), bytes: 10, checksum: 0 };
        assert_eq!(plan(&[part], 10, 100), (1, vec![]), "nothing is new");
        let (kept, ranges) = plan(&[part], 9, 100);
        assert!(kept == 0 && ranges.len() == 1 && ranges[0] == (0..9), "it is another file");
    }
}
