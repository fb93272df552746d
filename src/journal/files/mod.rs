//! The disk of a journal: what it is asked for, how its files are read, and which are trusted.

pub(crate) mod disk;
mod full_read;
pub(crate) mod pages;
#[cfg(any(fuzzing, test))]
#[cfg_attr(fuzzing, allow(dead_code, reason = "tests use the rest"))]
pub(crate) mod simulated;
mod synced;
mod trust;
pub(super) mod watch;
