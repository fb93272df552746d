//! The bits of slots, and buckets of any content. The body is `src/window/fuzzing/buckets.rs`,
//! which the crate's tests replay.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hapax::seam::Window::fuzz_buckets(bytes));

/// Stands in for the main function that `cargo fuzz` makes, so that this compiles without it.
#[cfg(not(fuzzing))]
fn main() {}
