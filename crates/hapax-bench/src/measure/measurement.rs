//! The result of one run.

use serde::{Deserialize, Serialize};

/// One run of a strategy in a setting, in a process of its own. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Checks that were timed.
    pub checks: u64,
    /// Wall time, from the first thread's start to the last one's end.
    pub nanos: u64,
    /// Processor time of this process in that time, all threads together; 0 where the system does
    /// not tell, and if ids were due at a rate, since waiting for the next one takes processor
    /// time, too.
    pub cpu_nanos: u64,
    /// Processor time of the server that it asks, if there is one.
    pub server_cpu_nanos: Option<u64>,
    /// Memory of this process, by difference; 0 where the system does not tell. Less than 256 KiB
    /// may as well be none. If ids were due at a rate, about a MiB of it is for counting latencies.
    /// Tables leave out both.
    pub bytes: u64,
    /// Memory or disk outside the process: of a server, of a directory.
    pub beside_bytes: Option<u64>,
    /// Ids that this memory holds.
    pub held: u64,
    /// Its answers, and how many of them were wrong.
    pub answers: Answers,
    /// The latencies, if ids were due at a rate.
    pub latency: Option<Latency>,
}

/// Answers, by the truth, in the timed checks and in those that were asked for afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// Checks of ids that were new.
    pub fresh: u64,
    /// Those of them that were called duplicates.
    pub invented: u64,
    /// Checks of ids that were duplicates.
    pub duplicates: u64,
    /// Those of them that were called fresh.
    pub missed: u64,
    /// Those of the missed that several threads were told at about the same time: a strategy that
    /// looks an id up and inserts it later does that.
    pub twice: u64,
}

/// The latencies of ids, in nanoseconds. Each counts from when the id was due, so a stall counts
/// for all ids that wait for its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Ids a second that were answered. If that is less than were due, the strategy fell behind,
    /// and latencies show how long that lasted rather than what the strategy can do.
    pub reached: f64,
    /// The latency that half of the ids did not exceed.
    pub p50: u64,
    /// The latency that 99 % did not exceed.
    pub p99: u64,
    /// The latency that 99.9 % did not exceed.
    pub p99_9: u64,
    /// The longest.
    pub longest: u64,
}
