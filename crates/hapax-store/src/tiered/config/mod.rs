//! The configuration and the construction of an engine.

mod builder;
mod options;

pub use builder::TieredBuilder;
pub use options::HistoryOptions;
