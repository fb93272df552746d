//! Tests of journals as wholes, on disks that fail.

mod checkpoints;
mod damaged;
pub(super) mod faults;
mod reopened_twice;
pub(crate) mod restarts;
mod tampered;
