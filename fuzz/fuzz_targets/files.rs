//! Damaged segments of a journal, and snapshots. The body is shared with `tests/fuzz_files.rs`.
#![cfg_attr(fuzzing, no_main)]

use testkit::files;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    files::fuzz(bytes);
});

/// So that this compiles, and is linted, without `cargo fuzz`, which makes the main function.
#[cfg(not(fuzzing))]
fn main() {
    files::fuzz(&[]);
}
