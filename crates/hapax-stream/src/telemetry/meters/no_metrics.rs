//! The stand-in for metrics without the feature `metrics`.

use super::event::Event;
use super::health::Health;
use hapax::Dedup;
use std::convert::Infallible;
use std::time::Duration;

pub(crate) struct ConsumerMeters;

pub(crate) struct KindMeters;

impl ConsumerMeters {
    pub(crate) fn new(_: &str) -> Self {
        ConsumerMeters
    }

    pub(crate) fn of_kind(&self, _: &str) -> KindMeters {
        KindMeters
    }

    pub(crate) fn others(&self) -> &KindMeters {
        &KindMeters
    }

    pub(crate) fn holds(&self, _: usize) {}

    pub(crate) fn stands(&self, _: &Health) {}

    pub(crate) fn doubts(&self, _: Duration) {}

    pub(crate) async fn at_rest(&self) {}

    pub(crate) async fn show_memory_of(&self, _: &Dedup) -> Infallible {
        std::future::pending().await
    }
}

impl KindMeters {
    pub(crate) fn happened(&self, _: Event, _: usize) {}

    pub(crate) fn handled(&self, _: Duration) {}
}
