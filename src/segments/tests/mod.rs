//! Tests of segments as wholes.

mod damaged;
mod faults;
mod model;
pub(crate) mod remote;
#[cfg(not(alone))]
mod system_disk;
