//! Journals that were forged, with right checksums. The body is
//! `src/journal/fuzzing/opened.rs`, which the crate's tests replay.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
#[path = "../allocation.rs"]
mod allocation;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocation::at_most(8_388_608 + 4_096 * bytes.len(), || hapax::fuzzing::hostile(bytes));
});

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles without it.
#[cfg(not(fuzzing))]
fn main() {}
