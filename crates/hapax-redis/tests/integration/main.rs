//! Namespaces and streams in Redis, requests that were given up, and connections that are
//! made in vain, on servers that the tests start and stop themselves.

mod connecting;
mod given_up;
mod namespaces;
#[cfg(feature = "streams")]
mod streams;
