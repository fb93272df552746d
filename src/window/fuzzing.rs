//! Access to the bits for fuzz targets. Nothing in an ordinary build.

#[cfg(any(all(test, not(modelled)), fuzzing))]
mod buckets;
