//! Models of the window's protocols: under loom, every execution with at most three preemptions
//! (two, where that takes longest) and every reordering that the memory orderings allow.
//!
//! [`scenario`] defines the calls, [`judge`] the allowed answers, [`world`] runs the calls and asks
//! the judge. The code is the window's own, on buckets of two slots. [`mutants`] leaves out the
//! rules of the protocols one by one: each time a scenario must fail.
//!
//! `RUSTFLAGS='--cfg modelled --cfg loom' cargo test --release --lib models` runs these models and
//! those of history and claims; with `HAPAX_LOOM_PREEMPTIONS=4` further.

mod buckets;
mod growth;
mod judge;
mod mutants;
mod scenario;
mod world;

use scenario::scenarios;
