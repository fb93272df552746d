//! Damaged segments of a journal. The body is shared with
//! `tests/integration/fuzz_files.rs`.
#![cfg_attr(fuzzing, no_main)]

use fuzzed::files;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    files::fuzz(bytes);
});

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles, and is linted,
/// without it.
#[cfg(not(fuzzing))]
fn main() {
    files::fuzz(&[]);
}
