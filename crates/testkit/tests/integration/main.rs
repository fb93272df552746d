//! Checks that each store keeps its promises: on servers that the tests start and stop themselves,
//! in directories of their own, behind bad networks, and after kill -9.

mod campaign;
mod common;
mod hostile;
mod killed;
#[cfg(target_os = "linux")]
mod left_behind;
mod processes;
mod proxy;
use testkit::{random, redis_server};

mod dynamodb;
mod fjall;
mod postgres;
mod redis;
mod redis_cluster;
mod redis_failover;
mod redis_forgetful;
#[cfg(target_os = "linux")]
mod redis_partition;
mod redis_silence;
mod restored;
mod sqlite;
mod tokens;
