//! The machine's clocks, and the way in which an engine counts time by them: for the parts that
//! write them down.

use super::{Timestamp, nanos_of};
use crate::sync::{Ordering, StdAtomicU64};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clocks of a machine at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// The time of the engine.
    pub(crate) engine: Timestamp,
    /// The time since 1970.
    pub(crate) wall_nanos: u64,
    /// The time since the machine was started, suspended or not; 0 if unknown.
    pub(crate) boot_nanos: u64,
}

/// The way in which an engine counts time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeBase {
    /// The time that the engine's clock shows beyond the wall clock.
    pub(crate) offset_nanos: i64,
    /// The source of time: 0 if undecided, or by the clock; 1 if by events.
    pub(crate) kind: u64,
}

/// The way in which an engine counts time, shared with the parts that write it down.
#[derive(Debug, Default)]
pub(crate) struct SharedTimeBase {
    offset_nanos: StdAtomicU64,
    kind: StdAtomicU64,
}

impl SharedTimeBase {
    pub(crate) fn set(&self, base: TimeBase) {
        // Relaxed: a file records how time was counted at about the moment when it was begun; a run
        // in the file records later changes.
        self.offset_nanos.store(base.offset_nanos as u64, Ordering::Relaxed);
        self.kind.store(base.kind, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> TimeBase {
        let offset_nanos = self.offset_nanos.load(Ordering::Relaxed) as i64;
        TimeBase { offset_nanos, kind: self.kind.load(Ordering::Relaxed) }
    }
}

/// The machine that a journal is written on.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) clocks: Arc<dyn Fn() -> Clocks + Send + Sync>,
    /// The boot of the machine that this is; 0 if unknown.
    pub(crate) boot: u64,
}

impl Machine {
    /// Returns this machine, with the time that an engine's clock shows.
    pub(crate) fn this(engine: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Machine { clocks: Arc::new(move || Clocks { engine: engine(), ..system() }), boot: boot() }
    }
}

fn system() -> Clocks {
    let wall_nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos_of);
    Clocks { engine: Timestamp::default(), wall_nanos, boot_nanos: since_boot() }
}

#[cfg(target_os = "linux")]
fn since_boot() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that we own, valid for writing for the whole call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    if failed == 0 { now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 } else { 0 }
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> u64 {
    0
}

/// Returns a hash of what Linux calls this boot.
fn boot() -> u64 {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if id.is_empty() { 0 } else { xxhash_rust::xxh3::xxh3_64(&id).max(1) }
}
