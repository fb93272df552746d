//! Stands in for the metrics without the feature `metrics`.

use super::Event;
use crate::schema::tables::Queue;
use crate::{Backlog, Seen};
use std::time::{Duration, SystemTime};

pub(crate) struct Recorder;

impl Recorder {
    pub(super) fn new(_: Queue, _: &str) -> Self {
        Recorder
    }

    pub(super) fn happened(&self, _: Event, _: Option<&str>) {}

    pub(crate) fn took(&self, _: Option<&str>, _: Duration) {}

    pub(crate) fn lagged(&self, _: Option<&str>, _: SystemTime) {}

    pub(crate) fn in_flight(&self, _: usize) {}

    pub(super) fn paused(&self, _: usize, _: bool) {}

    pub(super) fn waiting(&self, _: &Backlog) {}
}

pub(crate) fn marked(_: &str, _: &[Seen]) {}

pub(crate) fn mismatched(_: &str) {}

pub(crate) fn routed(_: &str, _: &'static str) {}
