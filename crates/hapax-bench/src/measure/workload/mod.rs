//! Streams of ids with their true answers, made before anything is measured.
//!
//! ```
//! use hapax_bench::measure::workload::{Ids, Truth, streams};
//! use hapax_bench::measure::{IdKind, Setting, Shape, Workload};
//!
//! let workload = Workload { shape: Shape::Uniform, duplicates: 0.1, distance_windows: 0.5 };
//! let setting = Setting { workload, ids: IdKind::U64, live: 1_000, ..Setting::default() };
//! let streams = streams::<Vec<u64>>(&setting, 17, 200)?; // two windows
//! let new = streams[0].truth.iter().filter(|&&truth| truth == Truth::New).count();
//! assert_eq!(new, 2_000);
//! # Ok::<(), hapax_bench::strategy::Failure>(())
//! ```
//!
//! | shape | what comes again |
//! |---|---|
//! | `Uniform` | one id in so many that the share is right, drawn from the new ids within the distance |
//! | `Zipf` | ids are drawn from ten times the live ones, as many in a window as show so many distinct ones |
//!
//! The streams of the first shape are `New` and `Duplicate` only, as long as the distance
//! leaves room for the lead of one thread over another ([`LEAD_TICKS_MAX`]); beyond that it is
//! `Undecided` whether the id is still known. With several threads, every second redelivery goes to
//! another thread than the first delivery. If both come within that lead ([`Truth::Shared`]),
//! either thread may be first, and exactly one is told that it is fresh. Of `Zipf`, threads have no
//! id in common.
//!
//! # Memory
//!
//! The ids, and a byte for each; while a `Zipf` is made, up to a hundred bytes for each
//! distinct id.

mod generate;
mod ids;
mod stream;
#[cfg(test)]
mod tests;
mod truth;

pub(super) use self::generate::{check, window_checks};
pub use self::ids::{Bytes, Ids};
pub use self::stream::Stream;
pub(super) use self::truth::Certain;
pub use self::truth::Truth;

use crate::measure::{IdKind, Setting};
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

/// Returns about how many bytes a window of a generated stream takes.
pub(super) fn window_bytes(setting: &Setting) -> u64 {
    let id_bytes = match setting.ids {
        IdKind::U64 => 8.0,
        IdKind::UuidText => 36.0,
        IdKind::Key200 => 200.0,
    };
    (window_checks(setting) * (id_bytes + 1.0)) as u64
}

impl Setting {
    /// Returns the plan that a strategy is to be built for.
    pub fn plan(&self, place: Place) -> Plan {
        let Setting { live, threads, .. } = *self;
        Plan { window: WINDOW, live, threads, place }
    }
}

/// Returns the ids that come in a number of ticks, one stream for each thread. Where the truth
/// depends on which thread is faster, it says so. The same seed makes the same streams.
///
/// Each window brings as many new ids as the setting says are live, so that a strategy is always
/// exactly at its capacity. The numbers of `Zipf` are its own.
///
/// # Errors
///
/// If the setting makes no sense, if its ids take more than half of the memory, or if they are of
/// another kind.
pub fn streams<B: Ids>(setting: &Setting, seed: u64, ticks: usize) -> Result<Vec<Stream<B>>, Failure> {
    if !B::keeps(setting.ids) {
        let kept = std::any::type_name::<B>();
        return Err(format!("ids of the kind {:?} cannot be kept as {kept}", setting.ids).into());
    }
    check(setting)?;
    fits(window_bytes(setting).saturating_mul(ticks as u64) / WINDOW_TICKS as u64)?;
    Ok(generate::streams(setting, seed, ticks))
}

/// Refuses streams that would leave no memory for the strategy.
fn fits(bytes: u64) -> Result<(), Failure> {
    let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
    match hapax::seam::available_bytes() {
        Some(available) if bytes > available as u64 / 2 => {
            let (takes, of) = (gib(bytes), gib(available as u64));
            Err(format!("the ids take about {takes:.1} GiB, more than half of the {of:.1} that are available").into())
        }
        _ => Ok(()),
    }
}
