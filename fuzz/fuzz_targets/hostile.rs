//! Journals and snapshots that somebody has made up, with right checksums. The body is
//! `src/journal/fuzzing/opened.rs`, which the crate's tests replay.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
#[path = "../allocation.rs"]
mod allocation;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocation::at_most(8_388_608 + 4_096 * bytes.len(), || hapax::fuzzing::hostile(bytes));
});

/// So that this compiles without `cargo fuzz`, which makes the main function.
#[cfg(not(fuzzing))]
fn main() {}
