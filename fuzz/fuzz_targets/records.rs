//! Records as stores give them back. The body is `src/store/fuzzing.rs`, which the crate's tests
//! replay; with the feature `stores` it has all of it.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
#[path = "../allocation.rs"]
mod allocation;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allocation::at_most(65_536 + 64 * bytes.len(), || hapax::fuzzing::records(bytes));
});

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles without it.
#[cfg(not(fuzzing))]
fn main() {}
