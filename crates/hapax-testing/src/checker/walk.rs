//! A walk through one id's operations, in the order of their invocation.

use super::frontier::Configuration;
use super::search::{Failed, Remainder, Search, Step};
use super::state::Specification;
use crate::operation::Event;

/// A walk through one id's operations, and the part to show if it ends early.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) overlapping: u64,
    /// The number of these where one of the two forgot the id.
    pub(crate) forgotten_meanwhile: u64,
    /// The index of the next operation.
    reached: usize,
    /// The last moment at which nothing was under way.
    pause: Pause,
    /// The last moment at which nothing was under way and the id was over, and the last of these
    /// after which that changed.
    free: Option<Pause>,
    story: Option<Pause>,
    /// The beginning and the end of the last operations that only an eviction explains.
    evicting: Option<(Option<Pause>, usize)>,
}

/// A moment at which nothing was under way: the index of the next operation, and the possible
/// states.
#[derive(Clone, Default)]
struct Pause {
    at: usize,
    configurations: Vec<Configuration>,
}

/// A part of the operations that explains why the walk has ended.
pub(crate) struct Part {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    /// The states that were possible at its beginning; `None` for those of the walk.
    pub(crate) start: Option<Remainder>,
}

impl Walk {
    pub(crate) fn walk(&mut self, search: &mut Search, spec: &Specification, steps: &[Step]) -> Result<(), Failed> {
        for (i, step) in steps.iter().enumerate() {
            self.reached = i;
            search.catch_up(spec, step.invoked)?;
            let quiet = search.is_quiet();
            if quiet {
                let is_over = |c: &Configuration| spec.is_over(c.state, step.effective.earliest);
                let is_free = !search.has_optional() && search.configurations().iter().all(is_over);
                self.pause(search, i, is_free);
            }
            if search.others(step.act.thread).next().is_some() {
                self.overlapping += 1;
                let mut events = search.others(step.act.thread).map(|other| other.event);
                let forgets = step.act.event == Event::Forget || events.any(|event| event == Event::Forget);
                self.forgotten_meanwhile += u64::from(forgets);
            }
            let alone = quiet && steps.get(i + 1).is_none_or(|next| next.invoked > step.returned);
            self.reached = i + 1;
            if alone { search.alone(spec, step)? } else { search.invoke(*step)? }
        }
        search.catch_up(spec, u64::MAX)?;
        self.pause(search, steps.len(), false);
        Ok(())
    }

    /// Notes a moment at which nothing is under way.
    fn pause(&mut self, search: &Search, at: usize, is_free: bool) {
        let configurations = search.configurations();
        if configurations != self.pause.configurations {
            let evictions = |configurations: &[Configuration]| configurations.iter().map(|c| c.evictions).min();
            if at > 0 && evictions(configurations) > evictions(&self.pause.configurations) {
                self.evicting = Some((self.begin().cloned(), at));
            }
            if self.free.as_ref().is_some_and(|free| free.configurations == self.pause.configurations) {
                self.story.clone_from(&self.free);
            }
            self.pause.configurations.clear();
            self.pause.configurations.extend_from_slice(configurations);
        }
        self.pause.at = at;
        if is_free {
            self.free.clone_from(&Some(Pause { at, configurations: configurations.to_vec() }));
        }
    }

    /// Returns the moment from which on the operations tell all: the id was over, and has been
    /// accepted since. `None` is the beginning.
    fn begin(&self) -> Option<&Pause> {
        let has_changed = |free: &&Pause| free.configurations != self.pause.configurations;
        self.free.as_ref().filter(has_changed).or(self.story.as_ref())
    }

    /// Returns the part that is wrong when no order was found.
    pub(crate) fn wrong(&self) -> Part {
        Part::new(self.begin(), self.reached)
    }

    /// Returns the part that takes an eviction.
    pub(crate) fn evicted(&self) -> Part {
        self.evicting.as_ref().map_or_else(|| self.wrong(), |(pause, end)| Part::new(pause.as_ref(), *end))
    }

    /// Returns the part since nothing was under way.
    pub(crate) fn under_way(&self) -> Part {
        Part::new(Some(&self.pause), self.reached)
    }
}

impl Part {
    fn new(pause: Option<&Pause>, end: usize) -> Self {
        let start = pause.map(|pause| Remainder { configurations: pause.configurations.clone(), optional: Vec::new() });
        Part { begin: pause.map_or(0, |pause| pause.at), end, start }
    }
}
