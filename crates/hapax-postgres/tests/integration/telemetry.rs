//! The view of operators: metrics, spans, and what messages say of themselves.

#[cfg(feature = "metrics")]
mod counting;
pub(super) mod described;
#[cfg(feature = "metrics")]
mod metered;
#[cfg(feature = "tracing")]
mod spans;
