//! The tables of a window: their memory, the state that they share, and the protocol of several of
//! them (`tables`), or of one (`alone`).

pub(super) mod alone;
mod counters;
pub(super) mod roster;
pub(super) mod shared_state;
pub(super) mod table;
pub(super) mod tables;
pub(super) mod trigger;
