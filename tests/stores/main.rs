//! Checks that each store keeps its promises: on servers that the tests start and stop themselves,
//! in directories of their own, behind bad networks, and after kill -9.

#[cfg(all(feature = "budget", feature = "stream"))]
mod campaign;
mod common;
mod killed;
mod processes;
mod proxy;
#[path = "../common/random.rs"]
mod random;

mod fjall;
mod postgres;
mod redis;
mod redis_cluster;
mod redis_failover;
mod redis_forgetful;
mod redis_server;
mod redis_silence;
mod sqlite;
