//! Stores against real servers, which the tests start and stop themselves.

mod proxy;
mod redis;
mod redis_cluster;
mod redis_server;
