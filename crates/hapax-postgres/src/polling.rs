//! The times at which relays and workers look for messages: while all is well, and without a
//! server.

pub(super) mod outage;
pub(super) mod schedule;
