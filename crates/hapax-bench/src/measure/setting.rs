//! Under which conditions strategies are compared.

use super::workload::{WINDOW, WINDOW_TICKS, window_checks};
use crate::strategy::{Place, Plan};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything that decides what a strategy has to do. Rows with the same setting can be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Which ids come.
    pub workload: Workload,
    /// What they are.
    pub ids: IdKind,
    /// Ids within a window.
    pub live: usize,
    /// Threads that share one strategy.
    pub threads: usize,
    /// Ids that are handed over at once; 1: one by one.
    pub batch: usize,
    /// What a thread does between two calls, in nanoseconds.
    pub think_nanos: u64,
    /// Ids a second that are due, of all threads together; if none, each thread goes as fast as it can.
    pub rate: Option<f64>,
    /// Memory that the strategy may take, in bytes; if none, what it needs for `live` ids.
    pub budget_bytes: Option<u64>,
}

/// A hundred thousand live integers, one of ten a duplicate from the last tenth of the window, checked one by one by
/// one thread.
impl Default for Setting {
    fn default() -> Self {
        Setting {
            workload: Workload { shape: Shape::Uniform, duplicates: 0.1, distance_windows: 0.1 },
            ids: IdKind::U64,
            live: 100_000,
            threads: 1,
            batch: 1,
            think_nanos: 0,
            rate: None,
            budget_bytes: None,
        }
    }
}

impl Setting {
    /// What a strategy is to be built for.
    pub fn plan(&self, place: Place) -> Plan {
        let Setting { live, threads, budget_bytes, .. } = *self;
        Plan { window: WINDOW, live, threads, budget_bytes, place }
    }

    /// How many ids are handed over at once on average: a batch ends with its hundredth of the window. None of a trace, where that
    /// depends on when ids come.
    pub fn batch_on_average(&self) -> Option<f64> {
        let is_trace = matches!(self.workload.shape, Shape::Trace { .. });
        let in_tick = window_checks(self) / WINDOW_TICKS as f64 / self.threads.max(1) as f64;
        let batches = (in_tick / self.batch.max(1) as f64).ceil().max(1.0);
        (!is_trace && self.rate.is_none()).then_some(in_tick / batches)
    }

    /// Whether so few ids are live, less than 1,000 for each thread, that moving the time on takes longer than checking.
    pub fn is_sparse(&self) -> bool {
        self.live < self.threads.saturating_mul(1_000)
    }
}

/// Which ids come, and in which order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// How redeliveries come.
    pub shape: Shape,
    /// The share of checks that are redeliveries, below 1. A trace and `Zipf` have their own.
    pub duplicates: f64,
    /// How far back redeliveries reach, in windows, at most 1. A trace and `Zipf` have their own.
    pub distance_windows: f64,
}

/// How redeliveries come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Evenly: any recent id, at any time.
    Uniform,
    /// Some ids are far more frequent than others: the one of rank r comes in proportion to r^-exponent.
    Zipf {
        /// The larger, the more often the most frequent ids come.
        exponent: f64,
    },
    /// After a rebalance: a run of recent ids comes again, all at once, in their order.
    Rebalance,
    /// A few ids come again and again within a short time.
    RetryStorm,
    /// Evenly, but ids are all alike in what hash functions and shards like to look at: they share long prefixes.
    Prefixes,
    /// What somebody has recorded.
    Trace {
        /// The file: see [`workload::Trace`](crate::measure::workload::Trace).
        path: PathBuf,
    },
}

/// What ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdKind {
    /// An integer.
    U64,
    /// The 16 bytes of a UUID.
    Uuid,
    /// A UUID as text, 36 bytes.
    UuidText,
    /// 200 bytes.
    Key200,
    /// Bytes of any length, as a trace has them.
    Bytes,
}
