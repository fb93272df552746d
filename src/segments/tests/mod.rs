//! Tests of segments as wholes.

mod damaged;
mod faults;
mod model;
pub(crate) mod remote;
mod system_disk;
