//! The ids of one thread.

use super::{Ids, Truth};
use crate::measure::IdKind;
use std::ops::Range;

/// The ids that one thread checks, tick after tick, with the true answers.
pub struct Stream<B> {
    /// The ids.
    pub ids: B,
    /// The truth about each id when it comes.
    pub truth: Vec<Truth>,
    /// The place where each tick begins; one more at the end.
    ticks: Vec<usize>,
}

impl<B: Ids> Stream<B> {
    /// Creates an empty stream, with room for a number of ids of a kind.
    pub(super) fn with_capacity(kind: IdKind, ids: usize) -> Self {
        Stream { ids: B::with_capacity(kind, ids), truth: Vec::with_capacity(ids), ticks: vec![0] }
    }

    /// Ends a tick: all of its ids were added.
    pub(super) fn end_tick(&mut self) {
        self.ticks.push(self.truth.len());
    }

    /// Returns the id at a place.
    pub fn id(&self, place: usize) -> &B::Id {
        self.ids.range(place..place + 1).next().expect("it is one id")
    }

    /// Returns the places of a tick's ids.
    pub fn tick(&self, tick: usize) -> Range<usize> {
        self.ticks(tick..tick + 1)
    }

    /// Returns the places of the ids of some ticks.
    pub fn ticks(&self, ticks: Range<usize>) -> Range<usize> {
        self.ticks[ticks.start]..self.ticks[ticks.end]
    }
}
