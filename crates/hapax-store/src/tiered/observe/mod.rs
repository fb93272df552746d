//! The observable state of an asynchronous engine: counts, and with the features `metrics` and
//! `tracing` metrics (`docs/metrics.md`), spans and events.

mod counter;
mod labels;
#[cfg(feature = "metrics")]
mod meters;
#[cfg(not(feature = "metrics"))]
#[path = "no_meters.rs"]
mod meters;
mod observer;
mod verdicts;

pub(crate) use labels::{End, Renewal, RequestKind};
#[cfg(feature = "metrics")]
pub(crate) use meters::Sample;
pub(crate) use observer::Observer;
pub(crate) use verdicts::Verdicts;
