//! Idempotency keys over HTTP: against a real server on loopback with a real client, and where time has to pass, against the service itself.

mod bodies;
mod faults;
mod keys;
mod outgoing;
mod running;
mod stored;
mod stores;
mod timing;
mod world;
