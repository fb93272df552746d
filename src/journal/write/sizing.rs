//! The time for which a journal keeps its data, and the amount of the data. Pure.

pub use crate::journal::options::COMMIT_BYTES;
pub use planned::{DiskUse, Flow};
use std::time::Duration;

/// Returns the age, relative to the youngest data, up to which data still matters: beyond it
/// nothing is live, by any clock.
pub fn retention(window: Duration, tick: Duration, horizon: Option<Duration>) -> Duration {
    let window = window + 8 * tick;
    horizon.map_or(window, |horizon| window.max(horizon))
}

/// Returns the time that a file covers, unless the options set another.
pub fn segment_length(retention: Duration) -> Duration {
    (retention / 16).max(Duration::from_nanos(1))
}

/// The figures that a plan computes with.
mod planned {
    use crate::journal::encoding::format::{BLOCK_HEADER_BYTES, ID_BYTES, RUN_HEADER_BYTES};
    use crate::journal::write::writer::MAX_SEGMENT_BYTES;
    use std::time::Duration;

    /// The data that is appended in a second, on average.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Flow {
        /// The number of blocks.
        pub blocks: f64,
        /// The number of bytes.
        pub bytes: f64,
    }

    impl Flow {
        /// Returns the flow of this many ids per second, in blocks that are written when their
        /// first id is as old as `commit_interval`, or when they have `commit_bytes`.
        pub fn of(ids: f64, commit_interval: Duration, commit_bytes: usize, tick: Duration) -> Self {
            let interval = commit_interval.as_secs_f64();
            let by_age = 1.0 / (1.0 / ids + interval);
            let blocks = by_age.max(ids * ID_BYTES as f64 / commit_bytes as f64).min(ids);
            // A block is a run, and one more wherever a tick begins or ends in it.
            let runs = (blocks * (1.0 + interval / tick.as_secs_f64())).min(ids);
            let bytes = ids * ID_BYTES as f64 + runs * RUN_HEADER_BYTES as f64 + blocks * BLOCK_HEADER_BYTES as f64;
            Flow { blocks, bytes }
        }
    }

    /// The space that a journal takes on the disk.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct DiskUse {
        /// The number of files, on average.
        pub segments: f64,
        /// The number of bytes, on average over the time it takes to fill a file.
        pub bytes: f64,
        /// The number of bytes just before a file is deleted.
        pub bytes_max: f64,
    }

    impl DiskUse {
        /// Returns the data at this many bytes per second, in files that cover `segment_length`
        /// each and are kept until their youngest id is `retention` old.
        pub fn of(bytes_per_second: f64, segment_length: Duration, retention: Duration, tick: Duration) -> Self {
            // Times in the journal are whole ticks, so a file covers a whole number of them.
            let ticks = (segment_length.as_secs_f64() / tick.as_secs_f64()).ceil();
            let segment = (ticks * tick.as_secs_f64()).min(MAX_SEGMENT_BYTES as f64 / bytes_per_second);
            let retention = retention.as_secs_f64();
            // The oldest file has between none and all of its time beyond the time that is
            // remembered, and the newest is not full.
            DiskUse {
                segments: retention / segment + 1.0,
                bytes: bytes_per_second * (retention + segment / 2.0),
                bytes_max: bytes_per_second * (retention + segment),
            }
        }
    }
}
