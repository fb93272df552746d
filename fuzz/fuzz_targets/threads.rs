//! Threads on one engine: their answers must have an order in which they are right. The body is
//! shared with `tests/integration/histories.rs`.
#![cfg_attr(fuzzing, no_main)]

use fuzzed::threads;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    threads::fuzz(bytes);
});

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles, and is linted,
/// without it.
#[cfg(not(fuzzing))]
fn main() {
    threads::fuzz(&[]);
}
