//! Threads on one engine: what they are answered must have an order in which it is right. The body is shared with `tests/histories.rs`.
#![cfg_attr(fuzzing, no_main)]

use testkit::threads;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    threads::fuzz(bytes);
});

/// So that this compiles, and is linted, without `cargo fuzz`, which makes the main function.
#[cfg(not(fuzzing))]
fn main() {
    threads::fuzz(&[]);
}
