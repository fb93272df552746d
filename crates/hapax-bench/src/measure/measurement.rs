//! What one run has shown.

use serde::{Deserialize, Serialize};

/// One run of a strategy in a setting, in a process of its own. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Checks that were timed.
    pub checks: u64,
    /// Wall time, from the first thread's start to the last one's end.
    pub nanos: u64,
    /// Processor time of this process in that time, all threads together; 0 where the system does not tell, and if ids
    /// were due at a rate, as waiting for the next one takes processor time, too.
    pub cpu_nanos: u64,
    /// Processor time of the server that it asks, if there is one.
    pub server_cpu_nanos: Option<u64>,
    /// What it takes to build it.
    pub start_nanos: u64,
    /// The longest time that a thread was held up by one call: a batch, 64 checks (or as many in small batches; one, if
    /// ids were due at a rate), or upkeep. It includes what the machine did meanwhile, if it took the processor away.
    pub pause_nanos: u64,
    /// What it takes to read the clock: part of each latency, once, and of the time of each call between which a thread
    /// thinks.
    #[serde(default)]
    pub clock_nanos: u64,
    /// Memory of this process, by difference; 0 where the system does not tell. Less than 256 KiB may as well be none. If
    /// ids were due at a rate, about a MiB of it is for counting latencies. Pages leave out both.
    pub bytes: u64,
    /// Memory or disk beside it: of a server, of a directory.
    pub beside_bytes: Option<u64>,
    /// Ids that this memory holds.
    pub held: u64,
    /// Ids that went before their time, by the strategy's own count.
    pub evicted: Option<u64>,
    /// What it answered, and what of that was wrong.
    pub answers: Answers,
    /// If ids were due at a rate.
    pub latency: Option<Latency>,
}

/// Answers, by the truth, in the timed checks and in those that were asked for afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// Checks of ids that were new.
    pub fresh: u64,
    /// Those that were called duplicates.
    pub invented: u64,
    /// Checks of ids that were duplicates.
    pub duplicates: u64,
    /// Those that were called fresh.
    pub missed: u64,
}

/// How long ids took, each from when it was due, so that a stall counts for all that wait for its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Ids a second that were answered. If that is less than were due, the strategy fell behind, and latencies say for
    /// how long that went on rather than what it can do.
    pub reached: f64,
    /// The distribution, from the median to the maximum, ascending.
    pub quantiles: Vec<Quantile>,
}

/// So many of all took at most so long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// A share, at most 1.
    pub of: f64,
    /// So long.
    pub nanos: u64,
}
