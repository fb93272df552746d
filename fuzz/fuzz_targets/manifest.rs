//! Manifests of hand-overs as an object store returns them, with right checksums, and names of
//! objects. The body is `crates/hapax-handover/src/fuzzing.rs`, which the crate's tests replay.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
#[path = "../allocation.rs"]
mod allocation;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocation::at_most(65_536 + 512 * bytes.len(), || hapax_handover::fuzzing::fuzz(bytes));
});

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles without it.
#[cfg(not(fuzzing))]
fn main() {}
