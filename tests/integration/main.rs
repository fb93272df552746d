//! The tests of the engine from outside, in one program, which is compiled and linked once. What
//! needs a process without a harness or without other threads has a program of its own: `fork`,
//! `threads`. `crash` starts this program once more, as the processes that it kills.
//!
//! Campaigns and long runs take `HAPAX_LONG` (`testkit::long`): docs/testing.md has them.

mod adversarial;
mod allocation;
mod amounts;
mod arrivals;
mod behaviours;
mod claims;
mod conformance;
mod crash;
mod digest;
mod documents;
mod event_time;
mod examples;
mod first_seen;
mod forgetting;
mod fuzz_corpus;
mod fuzz_files;
mod fuzzed;
mod growth;
mod hints;
mod histories;
mod journal;
mod model;
mod statistics;
mod traces;
