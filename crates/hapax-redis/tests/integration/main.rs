//! Namespaces, versions and streams in Redis, on servers that the tests start and stop themselves.

mod namespaces;
//! Versions and streams in Redis, and requests that were given up, on servers that the tests start
//! and stop themselves.

mod given_up;
#[cfg(feature = "streams")]
mod streams;
mod versions;
