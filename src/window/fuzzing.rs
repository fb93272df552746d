//! Where a fuzz target gets at the bits. Nothing in an ordinary build.

#[cfg(any(all(test, not(modelled)), fuzzing))]
mod lines;
