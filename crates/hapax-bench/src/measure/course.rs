//! The state that the threads of a run share, and the result of a phase of one of them.

use super::Setting;
use super::answers::Unexpected;
use super::gate::Gate;
use super::pace::Pace;
use super::phases::Phases;
use super::schedule::{Delays, Schedule};
use super::workload::{Ids, Stream, time};
use crate::strategy::Strategy;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The run of a strategy over the stream.
pub(super) struct Course<'a, B, S> {
    pub strategy: &'a S,
    pub streams: &'a [Stream<B>],
    pub setting: &'a Setting,
    pub phases: Phases,
}

/// The state that keeps threads together.
pub(super) struct Crew {
    pub pace: Pace,
    pub gate: Gate,
    /// Decisions to end a phase early after this many ticks of the stream; the first thread there
    /// decides.
    pub stops: Vec<OnceLock<bool>>,
    schedule: OnceLock<Schedule>,
}

/// The results of one thread in a phase.
pub(super) struct Leg {
    pub unexpected: Unexpected,
    pub places: Range<usize>,
    /// The tick after its last.
    pub tick: usize,
    pub begun: Instant,
    pub ended: Instant,
    pub thought: Duration,
    pub pause_nanos: u64,
    pub delays: Option<Delays>,
}

impl<B: Ids, S: Strategy<B::Id>> Course<'_, B, S> {
    /// Hands over some ids of a tick at once, and compares the answers.
    #[inline(always)]
    pub fn check_batch(
        &self,
        stream: &Stream<B>,
        places: Range<usize>,
        tick: usize,
        unexpected: &mut Unexpected,
        fresh: &mut Vec<bool>,
    ) {
        self.strategy.check_batch(stream.ids.range(places.clone()), time(tick), fresh);
        assert_eq!(fresh.len(), places.len(), "one answer for each id");
        for ((place, &truth), &answer) in places.clone().zip(&stream.truth[places]).zip(&*fresh) {
            unexpected.compare(place, truth, answer);
        }
    }
}

impl Crew {
    pub fn new(threads: usize, ticks: usize) -> Self {
        Crew {
            pace: Pace::new(threads),
            // One more: who reads the gauges.
            gate: Gate::new(threads + 1),
            stops: (0..=ticks).map(|_| OnceLock::new()).collect(),
            schedule: OnceLock::new(),
        }
    }

    /// Returns the times at which ids are due: they begin when the first thread asks.
    pub fn schedule(&self, make: impl FnOnce() -> Schedule) -> Schedule {
        *self.schedule.get_or_init(make)
    }
}
