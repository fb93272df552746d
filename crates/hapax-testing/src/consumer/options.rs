//! The options of a simulation.

use super::plan::Fault;
use std::ops::Range;
use std::time::Duration;

/// The number of effects that a message must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// One, however often it is delivered.
    #[default]
    Once,
    /// One or more: no effect may be missing.
    AtLeastOnce,
}

#[derive(Clone)]
pub(super) struct Options {
    pub(super) expect: Expect,
    pub(super) messages: usize,
    pub(super) processes: usize,
    /// The time after which the broker delivers a message again that was not acknowledged.
    pub(super) redelivery: Duration,
    /// The time for which a process stands still, and an answer is late.
    pub(super) freeze: Duration,
    /// The time for which something is away.
    pub(super) away: Duration,
    /// The time after which a message is sent again.
    pub(super) late: Duration,
    /// The virtual time in which all messages must be done.
    pub(super) patience: Duration,
    /// The number of faults that may be drawn for one schedule.
    pub(super) faults_max: u32,
    /// The number of decisions and of polls of one schedule.
    pub(super) steps_max: usize,
    /// The number of schedules that are tried one after the other, before random ones.
    pub(super) schedules_max: usize,
    pub(super) seeds: Range<u64>,
    pub(super) places: Vec<&'static str>,
    /// The faults that are left out.
    pub(super) without: Vec<Fault>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            expect: Expect::Once,
            messages: 2,
            processes: 2,
            redelivery: Duration::from_secs(30),
            freeze: Duration::from_secs(120),
            away: Duration::from_secs(20),
            late: Duration::from_secs(600),
            patience: Duration::from_secs(3600),
            faults_max: 8,
            steps_max: 10_000,
            schedules_max: 5_000,
            seeds: 0..1_000,
            places: Vec::new(),
            without: Vec::new(),
        }
    }
}
