//! For how long a journal keeps what it is told, and how much that is. Pure.

#[cfg(feature = "plan")]
pub(crate) use super::options::COMMIT_BYTES;
#[cfg(feature = "plan")]
pub(crate) use planned::{Flow, Kept};
use std::time::Duration;

/// How much younger than the youngest everything is that still matters: until nobody's clock finds anything of it live.
pub(crate) fn retention(window: Duration, tick: Duration, horizon: Option<Duration>) -> Duration {
    let window = window + 8 * tick;
    horizon.map_or(window, |horizon| window.max(horizon))
}

/// How much time a file covers, unless it is said otherwise.
pub(crate) fn segment_length(retention: Duration) -> Duration {
    (retention / 16).max(Duration::from_nanos(1))
}

/// What a plan computes with.
#[cfg(feature = "plan")]
mod planned {
    use crate::journal::format::{BLOCK_HEADER_BYTES, ID_BYTES, RUN_HEADER_BYTES};
    use crate::journal::writer::MAX_SEGMENT_BYTES;
    use std::time::Duration;

    /// What is appended in a second, on average.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Flow {
        pub(crate) blocks: f64,
        pub(crate) bytes: f64,
    }

    impl Flow {
        /// Of so many ids a second, in blocks that are written when their first id is as old as this, or when they are
        /// as large as that.
        pub(crate) fn of(ids: f64, commit_interval: Duration, commit_bytes: usize, tick: Duration) -> Self {
            let interval = commit_interval.as_secs_f64();
            let by_age = 1.0 / (1.0 / ids + interval);
            let blocks = by_age.max(ids * ID_BYTES as f64 / commit_bytes as f64).min(ids);
            // A block is a run, and one more wherever a tick begins or ends in it.
            let runs = (blocks * (1.0 + interval / tick.as_secs_f64())).min(ids);
            let bytes = ids * ID_BYTES as f64 + runs * RUN_HEADER_BYTES as f64 + blocks * BLOCK_HEADER_BYTES as f64;
            Flow { blocks, bytes }
        }
    }

    /// What lies on the disk.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Kept {
        /// Files, on average.
        pub(crate) segments: f64,
        /// On average over the time it takes to fill a file.
        pub(crate) bytes: f64,
        /// Just before a file is deleted.
        pub(crate) bytes_max: f64,
    }

    impl Kept {
        /// At so many bytes a second, in files that cover this much time, each kept until its youngest id is so old.
        pub(crate) fn of(bytes_per_second: f64, segment_length: Duration, retention: Duration, tick: Duration) -> Self {
            // Times in the journal are whole ticks, so a file is as many of them.
            let ticks = (segment_length.as_secs_f64() / tick.as_secs_f64()).ceil();
            let segment = (ticks * tick.as_secs_f64()).min(MAX_SEGMENT_BYTES as f64 / bytes_per_second);
            let retention = retention.as_secs_f64();
            // The oldest file has between none and all of its time beyond what is remembered, and the newest is not
            // full.
            Kept {
                segments: retention / segment + 1.0,
                bytes: bytes_per_second * (retention + segment / 2.0),
                bytes_max: bytes_per_second * (retention + segment),
            }
        }
    }
}
