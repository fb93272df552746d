//! Versions and streams in Redis, on servers that the tests start and stop themselves.

#[cfg(feature = "streams")]
mod streams;
mod versions;
