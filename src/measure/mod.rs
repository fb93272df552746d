//! What a [strategy](crate::strategy) does, costs and gets wrong on a stream of ids, in numbers: what `hapax bench` prints.

mod compare;
mod figures;
mod interval;
mod json;
mod measurement;
pub mod render;
mod report;
mod setting;

pub use compare::{Change, Changed, Comparison, Figure, compare};
pub use interval::Interval;
pub use json::UnreadableReport;
pub use measurement::{Answers, Latency, Measurement, Quantile};
pub use report::{Absent, Library, Machine, Report, Row, Sort};
pub use setting::{IdKind, Setting, Shape, Workload};
