//! Parts that tests of several crates share: servers and file systems that end with their
//! test, requests to stores, numbers by a seed, real traces, corpora of the fuzz targets.

// Code in documents leaves out no verdict.
#![doc(test(attr(deny(unused_must_use))))]

#[cfg(unix)]
pub mod brokers;
pub mod children;
pub mod corpus;
pub mod directory;
#[cfg(unix)]
pub mod moto_server;
#[cfg(target_os = "linux")]
pub mod mounted;
#[cfg(unix)]
pub mod processes;
pub mod proxy;
pub mod random;
#[cfg(unix)]
pub mod shared;
mod skipped;
pub mod stores;
pub mod traces;
pub mod world;

#[cfg(feature = "servers")]
pub mod postgres_pooler;
#[cfg(feature = "servers")]
pub mod postgres_server;
#[cfg(feature = "servers")]
pub mod redis_server;
#[cfg(all(unix, feature = "consumers"))]
pub mod redriven;

/// A history whose guess is taken for a duplicate.
pub fn history(horizon: std::time::Duration, false_positive_rate: f64, ids: usize) -> hapax::History {
    hapax::History { horizon, ids, false_positive_rate, unconfirmed: hapax::Unconfirmed::Duplicate }
}

pub use skipped::{skipped, skipped_without};

/// Returns the first number, or the second one where `HAPAX_LONG` asks for campaigns.
pub fn long<T>(short: T, long: T) -> T {
    if std::env::var_os("HAPAX_LONG").is_some() { long } else { short }
}

#[cfg(doctest)]
mod documents;
