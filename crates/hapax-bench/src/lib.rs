//! A benchmark of deduplication strategies: speed, latency, memory, and wrong answers; rivals
//! behind one trait.

pub mod measure;
pub mod strategy;
