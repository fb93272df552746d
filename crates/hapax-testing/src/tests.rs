//! Tests of the harness: right subjects pass, and each wrong one is found.

mod broken;
mod broken_claims;
mod broken_edges;
mod broken_everything;
mod brute_force;
mod engine;
mod exercised;
mod handmade;
pub(super) mod judged;
mod named;
mod told_clock;
