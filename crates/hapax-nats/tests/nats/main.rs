//! The source against a NATS server of its own, which some tests kill.

mod configured;
mod dead_letters;
mod delivered;
mod gone;
mod published;
mod redriven;
mod server;
