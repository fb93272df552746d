//! The events that a search reports to the monitors, and when.

use super::monitor::{Monitor, Pending};
use super::scenario::{Id, Op, WINDOW_TICKS};
use super::search::{Search, Stepped};
use super::state::State;
use super::subject::Subject;
use crate::sync::explored::machine;
use crate::window::bits::slot::Slot;
use crate::window::bits::tick::{GRACE, TICK_SHIFT, Tick};

impl Search<'_> {
    /// Reports that an operation has ended.
    pub(super) fn end(&mut self, state: &mut State, caller: usize, fresh: u16) -> Stepped {
        let mut place = self.place(state, caller);
        let op = self.automaton.op(place.node).clone();
        place.began = true;
        self.set_place(state, caller, place);
        for i in 0..self.ids.len() {
            let pending = self.pending(state, self.ids[i]);
            let mine = pending.iter().filter(|pending| pending.bit >> (4 * caller) & 15 != 0);
            let bits = mine.fold(0, |bits, pending| bits | pending.bit);
            if bits == 0 {
                continue;
            }
            let fresh = fresh << (4 * caller) & bits;
            let mut monitor = self.monitor(state, i).clone();
            let tick = self.automaton.node(place.node).tick;
            // A caller that was slower than a window (with refresh, than a grace), while a table
            // was started, cannot tell who was first: twice is better than never.
            let took = tick.map_or(0, |tick| tick.now.saturating_sub(op.tick().now));
            let too_long = if self.scenario.refresh { GRACE + 1 } else { WINDOW_TICKS };
            let cannot_tell = fresh != 0 && took >= too_long && !self.scenario.spares.is_empty();
            let mut as_known = monitor.clone();
            let mut is_right = monitor.ended(bits, fresh, &pending, WINDOW_TICKS);
            if cannot_tell && as_known.ended(bits, 0, &pending, WINDOW_TICKS) {
                monitor.join(as_known);
                is_right = true;
            }
            if !is_right {
                return Err(format!(
                    "{op:?} at {tick:?} must not answer that {:?} is {}",
                    self.ids[i],
                    ["known", "fresh"][usize::from(fresh != 0)]
                ));
            }
            self.set_monitor(state, i, monitor);
        }
        place.op += 1;
        place.began = false;
        place.node = *self.starts[caller].get(place.op).unwrap_or(&0);
        self.set_place(state, caller, place);
        let at_rest = (0..self.starts.len()).all(|caller| !self.place(state, caller).began);
        if at_rest && !self.in_memory(state, |subject| subject.is_sound()) && !self.scenario.breaks {
            return Err("a bucket is no ring".into());
        }
        Ok(())
    }

    /// Checks, when all callers have finished, that the ids are there that must be, and no others.
    pub(super) fn look_around(&mut self, state: &State) -> Stepped {
        let tick = Tick { now: self.scenario.end, stamp: self.scenario.end };
        for i in 0..self.ids.len() {
            let op = Op::Contains(self.ids[i], tick);
            let fresh = self.in_memory(state, |subject| subject.run(&op));
            let pending = op.on(self.ids[i], tick, false, false, false, 0);
            if !self.monitor(state, i).clone().ended(1, fresh, &pending, WINDOW_TICKS) {
                return Err(format!("at the end, {:?} is {}", self.ids[i], ["there", "not there"][usize::from(fresh)]));
            }
        }
        Ok(())
    }

    fn in_memory<R>(&self, state: &State, with: impl FnOnce(&dyn Subject) -> R) -> R {
        machine(|machine| {
            let words = (0..self.words.len()).map(|word| self.value(state, word));
            machine.words.iter_mut().zip(words).for_each(|(word, value)| *word = value);
        });
        with(self.subject)
    }

    /// Reports that an entry that must be kept was lost.
    pub(super) fn lose(&mut self, state: &mut State, first_word: usize, entry: u64) {
        let Some(i) = self.ids.iter().position(|id| self.subject.is_of(*id, first_word, Slot(entry))) else { return };
        let pending = self.pending(state, self.ids[i]);
        let mut monitor = self.monitor(state, i).clone();
        monitor.lost(entry >> TICK_SHIFT, &pending, WINDOW_TICKS);
        self.set_monitor(state, i, monitor);
    }

    /// Reports that a caller goes on at another tick: it was overtaken and had done nothing, or a
    /// table was started.
    pub(super) fn go_on(&mut self, state: &mut State, caller: usize) {
        let op = self.automaton.op(self.place(state, caller).node);
        let did_nothing = matches!(op, Op::Check(..) | Op::CheckLate(..)) && self.scenario.spares.is_empty();
        for i in 0..self.ids.len() {
            let pending = self.pending(state, self.ids[i]);
            let bits = 15 << (4 * caller);
            if pending.iter().all(|pending| pending.bit & bits == 0) {
                continue;
            }
            let mut monitor = self.monitor(state, i).clone();
            if did_nothing {
                monitor.starts_over(bits);
            } else {
                monitor.goes_on(&pending, WINDOW_TICKS);
            }
            self.set_monitor(state, i, monitor);
        }
    }

    /// Returns the operations under way that concern an id.
    fn pending(&self, state: &State, id: Id) -> Vec<Pending> {
        let mut all = Vec::new();
        for caller in 0..self.starts.len() {
            let place = self.place(state, caller);
            // Before it has agreed on a tick it has no effect.
            if let Some(tick) = self.automaton.node(place.node).tick.filter(|_| place.began) {
                let several_tables = !self.scenario.spares.is_empty();
                let op = self.automaton.op(place.node);
                all.extend(op.on(id, tick, self.scenario.refresh, several_tables, self.scenario.lenient, 4 * caller));
            }
        }
        all
    }

    fn monitor(&self, state: &State, id: usize) -> &Monitor {
        &self.monitors[state.0[self.changing_words + self.starts.len() + id] as usize]
    }

    fn set_monitor(&mut self, state: &mut State, id: usize, monitor: Monitor) {
        state.0[self.changing_words + self.starts.len() + id] = self.intern(monitor);
    }

    pub(super) fn intern(&mut self, monitor: Monitor) -> u64 {
        let monitors = &mut self.monitors;
        *self.known_monitors.entry(monitor).or_insert_with_key(|monitor| {
            monitors.push(monitor.clone());
            monitors.len() as u64 - 1
        })
    }
}
