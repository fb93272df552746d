//! Limits: of requests that are under way, of the bytes that scopes store, and how long requests
//! take.

pub(super) mod durations;
mod ledger;
pub(super) mod permits;
pub(super) mod quota;
pub(super) mod reservations;
