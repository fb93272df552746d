//! The asynchronous engine, over a store in memory that fails when it is told to.

#[macro_use]
mod forward;

mod again;
mod batching;
mod cancelling;
mod claims;
mod collisions;
mod completing;
mod doubt;
mod exclusive;
mod failing;
mod memory;
mod nodes;
mod options;
mod overdue;
mod policies;
mod running;
mod running_unverified;
mod shared;
mod standing_still;
use testkit::world;

use hapax_store::{HistoryOptions, OnStoreError, Policy, TieredBuilder, TieredClaim, TieredDedup};
use std::sync::Arc;
use std::time::Duration;
use world::*;

/// A history that knows nearly all new ids to be new.
const HISTORY: HistoryOptions = HistoryOptions { ids: 100_000, false_positive_rate: 1e-6 };

type Engine = TieredDedup<Store>;

/// Has an engine admit what its store could not be asked about.
fn admitting<S: hapax_store::Store>(engine: TieredBuilder<S>) -> TieredBuilder<S> {
    engine.policy("*", Policy::new().on_store_error(OnStoreError::Admit))
}

/// The engines that these tests use.
trait Engines {
    async fn shared(&self) -> Engine;
    async fn exclusive(&self) -> Engine;
}

impl Engines for World {
    async fn shared(&self) -> Engine {
        self.engine().build().await.unwrap()
    }

    /// Builds an exclusive engine with a history that is complete.
    async fn exclusive(&self) -> Engine {
        let engine = self
            .engine()
            .ownership(hapax_store::Ownership::ExclusiveAs("test".into()))
            .history(HISTORY)
            .build()
            .await
            .unwrap();
        engine.warm().await.unwrap();
        engine
    }
}

/// Claims an id that can be had.
async fn claim(engine: &Engine, id: &str) -> TieredClaim<Store> {
    engine.claim(id).await.unwrap().claimed().unwrap_or_else(|| panic!("{id} can be had"))
}

/// Returns true if an id is fresh, and false if it is a duplicate. An error is neither.
async fn is_fresh(engine: &Engine, id: &str) -> bool {
    let verdict = engine.check(id).await.unwrap();
    assert!(verdict.is_fresh() != verdict.is_duplicate());
    verdict.is_fresh()
}
