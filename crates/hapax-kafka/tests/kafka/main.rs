//! Runs sources against the client's own imitation of a cluster: consumer groups and offsets, in
//! this process, on loopback.

mod cluster;
mod failing;
mod partitions;
mod published;
mod raw;
mod rebalances;
mod redriven;
mod source;
