//! The view of operators on messages: backlogs, counts, metrics and spans.

pub(super) mod backlog;
pub(super) mod meters;
#[cfg_attr(not(feature = "tracing"), path = "telemetry/spans/no_tracing.rs")]
pub(super) mod spans;
