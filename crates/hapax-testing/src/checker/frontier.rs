//! The configurations that a search has yet to go on from.

use super::state::State;
use std::collections::HashMap;

/// One way in which everything so far can have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) state: State,
    /// The operations under way that have happened: a bit each.
    pub(crate) done: u128,
    /// The number of evictions that this way takes.
    pub(crate) evictions: u32,
}

/// Gives out each configuration once, those that take fewest evictions first: a way that comes with
/// more of them to where another one has been leads nowhere else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frontier {
    /// Those that take as many evictions as the last one that was given out, and those that take
    /// more.
    now: Vec<Configuration>,
    later: Vec<Configuration>,
    evictions: u32,
    /// The fewest evictions that led to a state after these operations.
    tried: HashMap<(State, u128), u32>,
}

impl Frontier {
    /// Starts from these.
    pub(crate) fn start(&mut self, from: &mut Vec<Configuration>) {
        self.now.clear();
        self.later.clear();
        self.tried.clear();
        self.evictions = 0;
        from.drain(..).for_each(|one| self.add(one));
    }

    /// Adds a configuration, unless as few evictions have led there before.
    pub(crate) fn add(&mut self, to: Configuration) {
        let fewest = self.tried.entry((to.state, to.done)).or_insert(u32::MAX);
        if to.evictions < *fewest {
            *fewest = to.evictions;
            if to.evictions <= self.evictions { &mut self.now } else { &mut self.later }.push(to);
        }
    }

    /// Returns the next one.
    pub(crate) fn next(&mut self) -> Option<Configuration> {
        while self.now.is_empty() {
            self.evictions = self.later.iter().map(|one| one.evictions).min()?;
            let Frontier { now, later, evictions, tried } = self;
            later.retain(|one| {
                let is_next = one.evictions == *evictions;
                if is_next && tried.get(&(one.state, one.done)) == Some(evictions) {
                    now.push(*one);
                }
                !is_next
            });
        }
        self.now.pop()
    }

    /// Returns how many were added that led anywhere else.
    pub(crate) fn tried(&self) -> usize {
        self.tried.len()
    }
}
