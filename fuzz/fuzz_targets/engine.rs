//! The engine against a model. The body is shared with `tests/integration/fuzz_corpus.rs`.
#![cfg_attr(fuzzing, no_main)]

use fuzzed::decode;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    decode::fuzz(decode::Tiers::Window, bytes);
});

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles, and is linted,
/// without it.
#[cfg(not(fuzzing))]
fn main() {
    decode::fuzz(decode::Tiers::Window, &[]);
}
