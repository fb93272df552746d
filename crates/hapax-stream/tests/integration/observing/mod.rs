//! The metrics and their documents, the spans and the events of an asynchronous engine.

mod alerts;
mod consumers;
mod documents;
mod log_consumers;
mod metrics;
mod spans;
use testkit::world;

use hapax_store::{TieredBuilder, TieredDedup};
use std::sync::Arc;
use std::time::Duration;
use world::*;

/// Builds an engine that asks its store once.
fn engine(world: &World) -> TieredBuilder<Store> {
    world.engine().retention(2 * WINDOW).retries(0)
}

/// Runs work on one thread, whose recorder and subscriber are the test's own, with time that passes
/// when no task has anything to do.
fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(work);
}
