//! The conditions under which strategies are compared.

use serde::{Deserialize, Serialize};

/// All parameters that decide what a strategy has to do. Rows with the same setting can be
/// compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The ids that come, and their order.
    pub workload: Workload,
    /// The kind of the ids.
    pub ids: IdKind,
    /// Ids within a window.
    pub live: usize,
    /// Threads that share one strategy.
    pub threads: usize,
    /// Ids that are handed over at once; 1 means one by one.
    pub batch: usize,
    /// True if ids that come one by one are read ahead: each is prepared while the one before it is
    /// checked. Only [some](crate::strategy::Strategy::READS_AHEAD) strategies can do that.
    #[serde(default)]
    pub ahead: bool,
    /// Ids a second that are due, of all threads together; if none, each thread goes as fast as it
    /// can.
    pub rate: Option<f64>,
    /// Bytes of a message that is decoded between two checks; 0 means that one check follows the
    /// other. Time is then what a check adds to the loop without it.
    #[serde(default)]
    pub work: usize,
    /// True if all memory is on huge pages, where the system has them: the process was started with
    /// [`HUGE_PAGES`]. If not, memory is as it comes, by the default allocator and its defaults.
    #[serde(default)]
    pub huge_pages: bool,
}

/// The tunable (in `GLIBC_TUNABLES`) by which glibc's malloc, 2.35 or later, asks for huge pages,
/// as hapax does for its tables by itself: what is far larger than the TLB maps is faster on them.
pub const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";

/// A hundred thousand live integers, one of ten a duplicate from the last tenth of the window,
/// checked one by one by one thread.
impl Default for Setting {
    fn default() -> Self {
        Setting {
            workload: Workload { shape: Shape::Uniform, duplicates: 0.1, distance_windows: 0.1 },
            ids: IdKind::U64,
            live: 100_000,
            threads: 1,
            batch: 1,
            ahead: false,
            rate: None,
            work: 0,
            huge_pages: false,
        }
    }
}

/// The ids that come, and their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The pattern of redeliveries.
    pub shape: Shape,
    /// The share of checks that are redeliveries, below 1. `Zipf` has its own.
    pub duplicates: f64,
    /// The distance that redeliveries reach back, in windows, at most 1. `Zipf` has its own.
    pub distance_windows: f64,
}

/// A pattern of redeliveries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Evenly: any recent id, at any time.
    Uniform,
    /// Some ids are far more frequent than others: the one of rank r comes in proportion to
    /// r^-exponent.
    Zipf {
        /// The exponent: the larger it is, the more often the most frequent ids come.
        exponent: f64,
    },
}

/// A kind of id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdKind {
    /// An integer.
    U64,
    /// A UUID as text, 36 bytes.
    UuidText,
    /// 200 bytes.
    Key200,
}
