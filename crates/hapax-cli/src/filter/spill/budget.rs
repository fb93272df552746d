//! Divides the memory that the command may take. Pure.

use super::records::RECORD_BYTES;

/// The least memory that the command can do with.
pub const BYTES_MIN: usize = 64 << 20;

/// The memory that it takes if nothing is said.
pub const BYTES_UNASKED: usize = 2 << 30;

/// The program itself, and batches on their way.
const OTHERS_BYTES: usize = 32 << 20;

/// The most partitions. With as many a table of one fits a core's cache up to some 10^8 ids.
const PARTITION_BITS_MAX: u32 = 10;

/// The sizes of a partition's buffer: at least what a disk likes to read at a time, and no more
/// than it takes for that.
const BUFFER_BYTES: (usize, usize) = (16 << 10, 1 << 20);

/// The most threads that look for duplicates; each has a table of its own.
const THREADS_MAX: usize = 4;

/// The least memory for the table of a second thread.
const TABLE_BYTES_MIN: usize = 16 << 20;

/// The memory of each structure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// There are two to the power of this many partitions.
    pub partition_bits: u32,
    /// The size of a partition's buffer, in records.
    pub buffer_records: usize,
    /// The most lines, each of which has a bit in the bitmap.
    pub lines_max: u64,
    /// The threads that look for duplicates, and the slots in the table of each.
    pub threads: usize,
    pub slots: usize,
}

impl Budget {
    /// Divides this much memory, of at least [`BYTES_MIN`], on a machine with this many processors.
    pub fn of(bytes: usize, processors: usize) -> Self {
        let bytes = bytes.max(BYTES_MIN) - OTHERS_BYTES;
        // A quarter for buffers, and at most half for the bitmap.
        let (buffers, marks) = (bytes / 4, bytes / 2);
        let partition_bits = (buffers / BUFFER_BYTES.0).ilog2().min(PARTITION_BITS_MAX);
        let buffer = (buffers >> partition_bits).clamp(BUFFER_BYTES.0, BUFFER_BYTES.1);
        let tables = bytes - buffers - marks;
        let threads = (tables / TABLE_BYTES_MIN).clamp(1, processors.clamp(1, THREADS_MAX));
        // Each thread has a buffer, too, to read into.
        let slots = (tables / threads - buffer) / size_of::<u128>();
        Budget { partition_bits, buffer_records: buffer / RECORD_BYTES, lines_max: marks as u64 * 8, threads, slots }
    }

    /// Returns the least `--max-memory` with room for this many lines.
    pub fn needed(lines: u64) -> u64 {
        lines.div_ceil(8) * 2 + OTHERS_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_no_more_than_the_whole() {
        for mib in [64, 65, 100, 256, 1_000, 2_048, 8_192, 100_000] {
            for processors in [1, 2, 64] {
                let bytes = mib << 20;
                let Budget { partition_bits, buffer_records, lines_max, threads, slots } =
                    Budget::of(bytes, processors);
                let buffers = (buffer_records * RECORD_BYTES) << partition_bits;
                let tables = threads * (slots * 16 + buffer_records * RECORD_BYTES);
                let all = OTHERS_BYTES + buffers + (lines_max / 8) as usize + tables;
                assert!(all <= bytes, "{mib} MiB: {all}");
                assert!(slots > 100_000 && buffer_records > 800 && threads <= processors, "{mib} MiB");
            }
        }
    }

    #[test]
    fn two_gigabytes_are_enough_for_eight_billion_lines() {
        let budget = Budget::of(BYTES_UNASKED, 2);
        assert!(budget.lines_max > 8_000_000_000 && budget.partition_bits == 10 && budget.threads == 2);
        assert!(Budget::needed(budget.lines_max) <= BYTES_UNASKED as u64);
        assert!(Budget::needed(budget.lines_max + 16) > BYTES_UNASKED as u64);
    }
}
