//! The observable state of an asynchronous engine: counts, and with the features `metrics` and
//! `tracing` metrics (`docs/metrics.md`), spans and events.

mod labels;
mod meters;
mod observer;
mod verdicts;

pub(crate) use labels::{End, Renewal, RequestKind};
pub(crate) use observer::Observer;
pub(crate) use verdicts::Verdicts;
