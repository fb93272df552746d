//! Segments: each codec, pages with right checksums, and directories that are damaged. The body is
//! `src/segments/fuzzing.rs`, which the crate's tests replay.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
#[path = "../allocation.rs"]
mod allocation;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // (A directory on the disk in memory takes some of it, whatever the input is.)
    allocation::at_most(1 << 20, || hapax::fuzzing::segments(bytes));
});

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles without it.
#[cfg(not(fuzzing))]
fn main() {}
