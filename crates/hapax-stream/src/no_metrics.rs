//! The stand-in for metrics without the feature `metrics`.

use super::event::Event;
use super::standing::Health;
use hapax::Dedup;
use std::convert::Infallible;
use std::time::Duration;

pub(super) struct ConsumerMeters;

pub(super) struct KindMeters;

impl ConsumerMeters {
    pub(super) fn new(_: &str) -> Self {
        ConsumerMeters
    }

    pub(super) fn of_kind(&self, _: &str) -> KindMeters {
        KindMeters
    }

    pub(super) fn others(&self) -> &KindMeters {
        &KindMeters
    }

    pub(super) fn holds(&self, _: usize) {}

    pub(super) fn stands(&self, _: &Health) {}

    pub(super) async fn at_rest(&self) {}

    pub(super) async fn show_memory_of(&self, _: &Dedup) -> Infallible {
        std::future::pending().await
    }
}

impl KindMeters {
    pub(super) fn happened(&self, _: Event, _: usize) {}

    pub(super) fn handled(&self, _: Duration) {}
}
