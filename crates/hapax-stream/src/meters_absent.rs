//! Without the feature `metrics` there are none.

use super::stats::Event;
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
