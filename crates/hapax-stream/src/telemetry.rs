//! The view of operators on a consumer: health, outages, counts and metrics.

pub(super) mod counts;
pub(super) mod event;
pub(super) mod health;
pub(super) mod kinds;
#[cfg_attr(not(feature = "metrics"), path = "telemetry/meters/no_metrics.rs")]
pub(super) mod meters;
mod outage;
