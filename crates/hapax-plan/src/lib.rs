#![doc = include_str!("../README.md")]
//!
//! # Guarantees
//!
//! - Predictions are computed with the engine's own functions, or by a model of it that is derived
//!   and has no fitted number. Tests compare them with engines that are built as planned, and allow
//!   a difference of 10 %.
//!
//! Idea: sizing by the tail of a Poisson distribution, as for hash tables with buckets in Knuth,
//! The Art of Computer Programming, 6.4; here of both buckets in which an id can be.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(
    clippy::cast_possible_truncation,
    reason = "predictions of what fits in memory, from numbers that were checked"
)]

mod call;
mod demand;
mod error;
mod history;
mod journal;
mod long_memory;
mod loss;
mod memory;
mod profile;
mod responses;
mod stores;
mod text;
mod units;
mod window;

pub use demand::Demand;
pub use error::PlanError;
pub use history::HistoryPlan;
pub use journal::JournalPlan;
pub use long_memory::LongMemoryPlan;
pub use profile::{Burst, CurvePoint, Excerpt, Length, Profile, Quantile, Summary, rounded_up};
pub use responses::ResponsesPlan;
pub use stores::StorePlan;
#[doc(hidden)] // for the command and its reports
pub use units::{Bytes, BytesNeeded, Count, Share, Time, rough};
pub use window::{ClaimsPlan, WindowPlan};

use std::time::Duration;

const SECONDS_A_DAY: f64 = 86_400.0;

/// A configuration, its cost, and what it will miss. Its `Display` prints all of that with units.
///
/// ```
/// use hapax_plan::Demand;
/// use std::time::Duration;
///
/// let plan = Demand::new(1_000.0, Duration::from_secs(60)).plan()?;
/// assert!(plan.builder_call().starts_with("Dedup::builder()"));
/// assert!(plan.bytes() as f64 > 18.0 * 60_000.0);
/// # Ok::<(), hapax_plan::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The checks a second that it is for, on average.
    pub checks_per_second: f64,
    /// The share of them that are of ids which the window knows.
    pub duplicates: f64,
    /// The factor by which more ids come in the busiest window than in one on average.
    pub peak: f64,
    /// The window.
    pub window: WindowPlan,
    /// The history, if one is wanted.
    pub history: Option<HistoryPlan>,
    /// The ids that are claimed at a time, if ids are claimed.
    pub claims: Option<ClaimsPlan>,
    /// The journal, if one is wanted.
    pub journal: Option<JournalPlan>,
    /// The long memory, if one is wanted.
    pub long_memory: Option<LongMemoryPlan>,
    /// The responses that are kept, if some are.
    pub responses: Option<ResponsesPlan>,
    /// The bytes of a store that remembers as long, and the calls that the memory in front of it
    /// saves.
    pub store: StorePlan,
}

impl Plan {
    fn of(demand: &Demand) -> Result<Self, PlanError> {
        let division = demand.divide()?;
        let ticks = demand.ticks()?;
        let claims = ClaimsPlan::of(demand, &division)?;
        let history = division.history.map(|size| HistoryPlan::of(demand, &size));
        Ok(Plan {
            window: WindowPlan::of(demand, &division, ticks),
            responses: demand.responses.as_ref().map(ResponsesPlan::of),
            store: StorePlan::of(demand, history.as_ref()),
            journal: demand.commit_interval().map(|interval| JournalPlan::of(demand, interval, ticks.tick())),
            long_memory: demand.long_memory.map(|retention| LongMemoryPlan::of(demand, retention)),
            history,
            claims,
            checks_per_second: demand.checks_per_second,
            duplicates: demand.duplicates,
            peak: demand.peak,
        })
    }

    /// Returns the memory of the engine to begin with, and as long as the load stays within the
    /// peak: [`Stats::bytes`](hapax::Stats::bytes), with the claims that are then in flight, and
    /// the filters of a long memory.
    pub fn bytes(&self) -> usize {
        self.window.bytes.saturating_add(self.beside_window()).saturating_add(self.long_memory_bytes().0)
    }

    /// Returns the memory of the engine when its window has grown as far as it may.
    pub fn bytes_max(&self) -> usize {
        self.window.grown_bytes.saturating_add(self.beside_window()).saturating_add(self.long_memory_bytes().1)
    }

    /// Returns the memory of filters on average, and the most that a long memory takes.
    fn long_memory_bytes(&self) -> (usize, usize) {
        self.long_memory.as_ref().map_or((0, 0), |long_memory| (long_memory.bytes, long_memory.bytes_max))
    }

    fn beside_window(&self) -> usize {
        let history = self.history.as_ref().map_or(0, |history| history.bytes);
        let claims = self.claims.as_ref().map_or(0, |claims| claims.bytes);
        history.saturating_add(claims + memory::FIXED_BYTES)
    }

    /// Returns the builder with this configuration, but without what needs a directory: the journal
    /// and the long memory.
    pub fn builder(&self) -> hapax::Builder {
        let window = &self.window;
        let builder = hapax::Dedup::builder()
            .window(window.duration)
            .capacity(window.capacity)
            .max_memory_bytes(window.max_memory_bytes);
        let builder = match &self.history {
            Some(history) => builder.history(history.options()),
            None => builder,
        };
        match &self.claims {
            Some(claims) => builder.lease(claims.lease),
            None => builder,
        }
    }

    /// Returns how long ids are remembered, as far as anybody relies on it.
    fn remembered(demand: &Demand) -> Duration {
        demand.long_memory.or(demand.horizon).unwrap_or(demand.window)
    }
}
