//! Idempotency keys over HTTP: against a real server on loopback with a real client, and where time
//! has to pass, against the service itself.

mod away;
mod begun;
mod bodies;
mod conformance;
mod faults;
mod kept;
mod keys;
mod outgoing;
mod planned;
mod problems;
mod published;
mod quotas;
mod running;
mod stored;
mod stores;
mod tenants;
mod timing;
mod world;

use testkit::{postgres_server, redis_server};
