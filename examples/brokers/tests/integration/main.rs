//! Runs each example against a broker of its own, which delivers every message at least twice,
//! while its consumers are killed at random; and counts the effects.
//!
//! `HAPAX_SEED=… cargo test` draws the same numbers again; the progress of the consumers by then
//! differs.

use testkit::{directory, processes};

mod campaign;
mod handed_over;
mod http;
mod killed;
mod servers;

mod jetstream;
mod kafka;
mod kafka_handover;
mod kafka_log;
mod kafka_transactions;
mod llm_cache;
mod rabbitmq;
mod redis_streams;
mod redis_streams_log;
mod sqs;
mod webhook;
