//! Which configuration, how large, what will it cost and what will it miss? (Feature `plan`.)
//!
//! ```
//! use hapax::plan::Demand;
//! use std::time::Duration;
//!
//! let plan = Demand::new(10_000.0, Duration::from_secs(600)).duplicates(0.05).plan()?;
//! println!("{plan}");
//! assert_eq!(plan.window.capacity, 5_700_000);
//! assert!(plan.window.forgotten_early_a_day < 2e-6 * 10_000.0 * 86_400.0);
//! let dedup = plan.builder().build()?;
//! assert!(dedup.check("m-1").is_fresh());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Demand`] says what is to be done, a [`Plan`] what to configure for it, and what to expect. [`Profile`] finds out
//! what is to be done from ids that have come. The command `hapax plan` is this with options and pictures.
//!
//! # Guarantees
//!
//! - What is predicted is computed by what the engine itself computes with, or by a model of it that is derived and has
//!   no fitted number; tests compare it with engines that are built as planned, and allow a difference of 10 %.
//! - What stores take is not computed: it was measured (`docs/scaling-out.md`), with ids of 16 bytes.
//! - Ids are taken to come at random. Whoever has some of them can see how they come, in a [`Profile`].
//!
//! Idea: sizing by the tail of a Poisson distribution, as for hash tables with buckets in Knuth, The Art of Computer
//! Programming, 6.4; here of both lines that an id can stand in.

mod call;
mod demand;
mod error;
mod history;
mod journal;
mod loss;
mod memory;
mod profile;
mod stores;
mod text;
mod units;
mod window;

pub use demand::Demand;
pub use error::PlanError;
pub use history::HistoryPlan;
pub use journal::JournalPlan;
pub use profile::{Burst, CurvePoint, Length, Profile, Quantile, Summary, rounded_up};
pub use stores::StorePlan;
pub use window::{ClaimsPlan, WindowPlan};

use std::time::Duration;

const SECONDS_A_DAY: f64 = 86_400.0;

/// A configuration, and what it will cost and miss. Printed, it is all of that with units.
///
/// ```
/// use hapax::plan::Demand;
/// use std::time::Duration;
///
/// let plan = Demand::new(1_000.0, Duration::from_secs(60)).plan()?;
/// assert!(plan.builder_call().starts_with("Dedup::builder()"));
/// assert!(plan.bytes() as f64 > 18.0 * 60_000.0);
/// # Ok::<(), hapax::plan::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Checks a second that it is for, on average.
    pub checks_per_second: f64,
    /// Which share of them are of ids that the window knows.
    pub duplicates: f64,
    /// How many times as many ids come in the busiest window as in one on average.
    pub peak: f64,
    /// The window.
    pub window: WindowPlan,
    /// The history, if one is wanted.
    pub history: Option<HistoryPlan>,
    /// What is claimed at a time, if ids are claimed.
    pub claims: Option<ClaimsPlan>,
    /// The journal, if one is wanted.
    pub journal: Option<JournalPlan>,
    /// What a store would take that remembers as long, and what the memory in front of it saves.
    pub store: StorePlan,
}

impl Plan {
    pub(super) fn of(demand: &Demand) -> Result<Self, PlanError> {
        let division = demand.divide()?;
        let ticks = demand.ticks()?;
        let claims = ClaimsPlan::of(demand, &division)?;
        let history = division.history.map(|size| HistoryPlan::of(demand, &size));
        Ok(Plan {
            window: WindowPlan::of(demand, &division, ticks),
            store: StorePlan::of(demand, history.as_ref()),
            journal: demand.journal.map(|interval| JournalPlan::of(demand, interval, ticks.tick())),
            history,
            claims,
            checks_per_second: demand.checks_per_second,
            duplicates: demand.duplicates,
            peak: demand.peak,
        })
    }

    /// Memory of the engine to begin with, and as long as no more comes than at the peak.
    pub fn bytes(&self) -> usize {
        self.window.bytes + self.beside_window()
    }

    /// Memory of the engine when its window has grown as far as it may.
    pub fn bytes_max(&self) -> usize {
        self.window.grown_bytes + self.beside_window()
    }

    fn beside_window(&self) -> usize {
        let history = self.history.as_ref().map_or(0, |history| history.bytes);
        history + self.claims.as_ref().map_or(0, |claims| claims.bytes)
    }

    /// The builder with this configuration; without the journal, which needs to know where.
    pub fn builder(&self) -> crate::Builder {
        let window = &self.window;
        let builder = crate::Dedup::builder()
            .window(window.duration)
            .capacity(window.capacity)
            .max_memory_bytes(window.max_memory_bytes);
        let builder = match &self.history {
            Some(history) => builder.history(history.horizon, history.false_positive_rate, history.ids),
            None => builder,
        };
        match &self.claims {
            Some(claims) => builder.lease(claims.lease),
            None => builder,
        }
    }

    /// How long ids are remembered, as far as anybody relies on it.
    fn remembered(demand: &Demand) -> Duration {
        demand.horizon.unwrap_or(demand.window)
    }
}
