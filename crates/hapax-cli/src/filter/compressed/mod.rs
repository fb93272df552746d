//! Compressed content: recognized, read, and its end.

pub(super) mod compression;
mod content_end;
#[cfg(feature = "zstd")]
pub(super) mod frames;
pub(super) mod gzip;
