//! The store and streams in Redis, on servers that the tests start and stop themselves: they are
//! killed, they forget, they change roles, and networks misbehave.

mod cluster;
mod connecting;
mod failover;
mod forgetful;
mod given_up;
mod namespaces;
#[cfg(target_os = "linux")]
mod restored;
mod silence;
mod store;
#[cfg(feature = "streams")]
mod streams;
