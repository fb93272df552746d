//! The stand-in for metrics without the feature `metrics`.

use super::event::Event;
use std::time::Duration;

pub(super) struct ConsumerMeters;

impl ConsumerMeters {
    pub(super) fn new(_: &str) -> Self {
        ConsumerMeters
    }

    pub(super) fn happened(&self, _: Event, _: usize) {}

    pub(super) fn handled(&self, _: Duration) {}

    pub(super) fn holds(&self, _: usize) {}
}
