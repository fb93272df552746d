//! Each codec of journals. The body is `src/journal/fuzzing/codecs.rs`, which the
//! crate's tests replay.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
#[path = "../allocation.rs"]
mod allocation;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocation::at_most(65_536 + 64 * bytes.len(), || hapax::fuzzing::journal(bytes));
});

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles without it.
#[cfg(not(fuzzing))]
fn main() {}
