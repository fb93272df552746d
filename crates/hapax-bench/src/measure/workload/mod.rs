//! Streams of ids with their true answers, made before anything is measured.
//!
//! ```
//! use hapax_bench::measure::workload::{Ids, Truth, streams};
//! use hapax_bench::measure::{IdKind, Setting, Shape, Workload};
//!
//! let workload = Workload { shape: Shape::Uniform, duplicates: 0.1, distance_windows: 0.5 };
//! let setting = Setting {
//!     workload,
//!     ids: IdKind::U64,
//!     live: 1_000,
//!     threads: 1,
//!     batch: 1,
//!     think_nanos: 0,
//!     rate: None,
//!     budget_bytes: None,
//! };
//! let streams = streams::<Vec<u64>>(&setting, 17, 200)?; // two windows
//! let new = streams[0].truth.iter().filter(|&&truth| truth == Truth::New).count();
//! assert_eq!(new, 2_000);
//! # Ok::<(), hapax_bench::strategy::Failure>(())
//! ```
//!
//! | shape | what comes again |
//! |---|---|
//! | `Uniform` | one id in so many that the share is right, drawn from the new ids within the distance |
//! | `Rebalance` | all new ids within the distance, in their order and at once, as often as the share says: a consumer begins at the last committed offset |
//! | `RetryStorm` | four ids within the distance, drawn 256 times at once (or a tenth of a window's redeliveries, if that is less) |
//! | `Prefixes` | as `Uniform`; integers are multiples of 2^24, UUIDs differ in their last 5 bytes, other ids begin alike |
//! | `Zipf` | ids are drawn from ten times the live ones, as many in a window as show so many distinct ones |
//! | `Trace` | what was recorded |
//!
//! The streams of the first four shapes are `New` and `Duplicate` only, as long as the distance
//! leaves room for the lead of one thread over another ([`LEAD_TICKS_MAX`]); beyond that it is
//! `Undecided` whether the id is still known. With several threads, every second redelivery goes to
//! another thread than the first delivery. If both come within that lead, the id is shared
//! ([`Truth::SharedNew`]): either thread may be first, and exactly one is told that it is fresh.
//! Of `Zipf` and of a trace, threads have no id in common.
//!
//! # Memory
//!
//! The ids, and a byte for each; while a `Zipf` or a trace is made, up to a hundred bytes for each
//! distinct id.

mod generate;
mod ids;
mod redeliver;
mod stream;
#[cfg(test)]
mod tests;
mod trace;
mod truth;
mod zipf;

pub use self::ids::{Bytes, Ids};
pub use self::stream::Stream;
#[cfg(any(fuzzing, all(test, not(modelled))))]
pub(crate) use self::trace::fuzz as fuzz_trace;
pub use self::trace::{Trace, TraceHeader};
pub use self::truth::Truth;

use crate::measure::{Setting, Shape};
use crate::strategy::{Failure, Place, Plan};
use hapax::Timestamp;
use std::time::Duration;

/// Ticks of stream time in a window.
pub const WINDOW_TICKS: usize = 100;

/// The length of a tick; any would do.
const TICK: Duration = Duration::from_secs(1);

/// The length of a window.
pub const WINDOW: Duration = Duration::from_secs(TICK.as_secs() * WINDOW_TICKS as u64);

/// Ticks by which a thread may be ahead of the last one: the true answers leave room for that, if
/// there are several threads.
pub const LEAD_TICKS_MAX: usize = 10;

/// Returns the time at which a tick begins, which its checks are given.
pub fn time(tick: usize) -> Timestamp {
    Timestamp::default() + Duration::from_secs(TICK.as_secs() * tick as u64)
}

/// Returns the checks that are to be expected in a window of a generated stream.
pub fn window_checks(setting: &Setting) -> f64 {
    generate::window_checks(setting)
}

impl Setting {
    /// Returns the plan that a strategy is to be built for.
    pub fn plan(&self, place: Place) -> Plan {
        let Setting { live, threads, budget_bytes, .. } = *self;
        Plan { window: WINDOW, live, threads, budget_bytes, place }
    }

    /// Returns how many ids are handed over at once on average: a batch ends with its hundredth of
    /// the window. None for a trace, where that depends on when ids come.
    pub fn batch_on_average(&self) -> Option<f64> {
        let is_trace = matches!(self.workload.shape, Shape::Trace { .. });
        let in_tick = window_checks(self) / WINDOW_TICKS as f64 / self.threads.max(1) as f64;
        let batches = (in_tick / self.batch.max(1) as f64).ceil().max(1.0);
        (!is_trace && self.rate.is_none()).then_some(in_tick / batches)
    }
}

/// Returns the ids that come in a number of ticks, one stream for each thread. Where the truth
/// depends on which thread is faster, it says so. The same seed makes the same streams.
///
/// Each window brings as many new ids as the setting says are live, so that a strategy is always
/// exactly at its capacity. The numbers of `Zipf` and of a trace are their own.
///
/// # Errors
///
/// If the setting makes no sense, or its trace cannot be read, or has ids of another kind.
pub fn streams<B: Ids>(setting: &Setting, seed: u64, ticks: usize) -> Result<Vec<Stream<B>>, Failure> {
    if !B::keeps(setting.ids) {
        let kept = std::any::type_name::<B>();
        return Err(format!("ids of the kind {:?} cannot be kept as {kept}", setting.ids).into());
    }
    match &setting.workload.shape {
        Shape::Trace { path } => Trace::read(path)?.streams(setting.ids, setting.threads, ticks),
        _ => generate::streams(setting, seed, ticks),
    }
}
