//! Namespaces, versions and streams in Redis, on servers that the tests start and stop themselves.

mod namespaces;
#[cfg(feature = "streams")]
mod streams;
mod versions;
