//! Connections to a server: where it is, and what goes over one.

pub(super) mod connection;
pub(super) mod endpoint;
pub(super) mod sentinel;
#[cfg(feature = "tls")]
pub(super) mod tls;
pub(super) mod wire;
