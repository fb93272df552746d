//! What a [strategy](crate::strategy) does, costs and gets wrong on a stream of ids, in numbers: what `hapax bench` prints.

mod measurement;
mod report;
mod setting;
pub mod workload;

pub use measurement::{Answers, Latency, Measurement, Quantile};
pub use report::{Absent, Library, Machine, Report, Row, Sort};
pub use setting::{IdKind, Setting, Shape, Workload};
