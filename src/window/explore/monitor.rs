//! The monitors: they judge at each completion whether the answers are allowed.
//!
//! Ids are independent. For each, the monitor keeps every state in which the id can be, given all
//! answers so far: absent, or accepted at a tick, and which operations under way have taken effect
//! already. An operation takes effect at one moment between its begin and its end. (A forgetting at
//! one or several, since it cleans several buckets.) If no state is left, the answers are not those
//! of a window.
//!
//! If an entry that must be kept was lost, and the loss counted, the id may be found or not from
//! then on, until it is accepted again.

use crate::window::bits::tick::Tick;

/// An operation under way, as far as one id is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// The operation's bit in [`State::done`].
    pub(crate) bit: u16,
    /// The bits of the same caller's operations that come first.
    pub(crate) after: u16,
    pub(crate) act: Act,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// A check. `again`: when it has accepted the id, it may do so once more, in a table that was
    /// started meanwhile. `lenient`: if the id that it accepted was forgotten, and accepted by
    /// another caller in the same table, it may find that.
    Check {
        tick: Tick,
        refresh: bool,
        again: bool,
        lenient: bool,
    },
    Contains {
        tick: Tick,
    },
    Forget,
}

/// A state in which an id may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct State {
    /// The tick from which on the id is remembered.
    stamp: Option<u64>,
    /// True if the id may have been lost.
    lost: bool,
    /// The operations under way that have taken effect, and (in `fresh`) those of them that have
    /// found or will find the id fresh.
    done: u16,
    fresh: u16,
    /// The operations of `fresh` whose id was forgotten since.
    forgotten: u16,
}

/// The states in which an id may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Monitor(Vec<State>);

impl Monitor {
    pub(crate) fn new() -> Self {
        Monitor(vec![State { stamp: None, lost: false, done: 0, fresh: 0, forgotten: 0 }])
    }

    /// Notes that an operation of `pending` has ended: those of its bits that are in `fresh` found
    /// the id fresh. Returns false if that cannot be.
    pub(crate) fn ended(&mut self, bits: u16, fresh: u16, pending: &[Pending], window_ticks: u64) -> bool {
        self.close(pending, window_ticks);
        self.0.retain(|state| state.done & bits == bits && state.fresh & bits == fresh);
        for state in &mut self.0 {
            state.done &= !bits;
            state.fresh &= !bits;
            state.forgotten &= !bits;
        }
        self.tidy();
        !self.0.is_empty()
    }

    /// Adds the states of another monitor.
    pub(crate) fn join(&mut self, other: Monitor) {
        self.0.extend(other.0);
        self.tidy();
    }

    /// Notes that an operation goes on at another tick than that in `pending`, and may have taken
    /// effect at this one.
    pub(crate) fn goes_on(&mut self, pending: &[Pending], window_ticks: u64) {
        self.close(pending, window_ticks);
        self.tidy();
    }

    /// Notes that an operation has not taken effect so far.
    pub(crate) fn starts_over(&mut self, bits: u16) {
        self.0.retain(|state| state.done & bits == 0);
        self.tidy();
    }

    /// Notes that an entry with this tick, modulo 2^10, was lost.
    pub(crate) fn lost(&mut self, tick: u64, pending: &[Pending], window_ticks: u64) {
        self.close(pending, window_ticks);
        for state in &mut self.0 {
            // An older entry may be lost: the id has a younger one.
            state.lost |= state.stamp.is_some_and(|stamp| tick.wrapping_sub(stamp) & 1023 < 512);
        }
        self.tidy();
    }

    /// Adds the states after operations under way have taken effect, in any order.
    fn close(&mut self, pending: &[Pending], window_ticks: u64) {
        let mut next = 0;
        while next < self.0.len() {
            let state = self.0[next];
            next += 1;
            for operation in pending {
                let done = state.done & operation.bit != 0;
                let in_order = state.done & operation.after == operation.after;
                let after = match done {
                    _ if !in_order => continue,
                    true => state.again(operation, window_ticks),
                    false => state.after(operation, window_ticks),
                };
                for after in after.into_iter().flatten() {
                    if !self.0.contains(&after) {
                        self.0.push(after);
                    }
                }
            }
        }
    }

    fn tidy(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }
}

impl State {
    /// Returns the states after an operation has taken effect once more.
    fn again(self, operation: &Pending, window_ticks: u64) -> [Option<State>; 2] {
        match operation.act {
            Act::Forget => [Some(self.forget()), None],
            Act::Check { tick, again: true, lenient, .. } if self.fresh & operation.bit != 0 => {
                let forgotten = self.forgotten & !operation.bit;
                let accepted = State { stamp: Some(tick.stamp), lost: false, forgotten, ..self };
                // The id that it accepted was forgotten, and another caller was faster to accept it
                // again.
                let found = State { fresh: self.fresh & !operation.bit, forgotten, ..self };
                let was_forgotten = lenient && self.forgotten != forgotten;
                let finds = was_forgotten && self.stamp.is_some_and(|stamp| tick.now < stamp + window_ticks);
                [(self.stamp < Some(tick.stamp)).then_some(accepted), finds.then_some(found)]
            }
            _ => [None, None],
        }
    }

    fn forget(self) -> State {
        State { stamp: None, lost: false, forgotten: self.fresh, ..self }
    }

    /// Returns the states after an operation has taken effect: where it finds the id, and where it
    /// does not.
    fn after(self, operation: &Pending, window_ticks: u64) -> [Option<State>; 2] {
        let done = self.done | operation.bit;
        let (found, fresh) = (State { done, ..self }, State { done, fresh: self.fresh | operation.bit, ..self });
        let live = |tick: Tick| self.stamp.is_some_and(|stamp| tick.now < stamp + window_ticks);
        match operation.act {
            Act::Forget => [Some(found.forget()), None],
            Act::Contains { tick } => [live(tick).then_some(found), (!live(tick) || self.lost).then_some(fresh)],
            Act::Check { tick, refresh, .. } => {
                let later = refresh && self.stamp.is_some_and(|stamp| tick.stamp > stamp);
                let found = if later { State { stamp: Some(tick.stamp), lost: false, ..found } } else { found };
                let fresh = State { stamp: Some(tick.stamp), lost: false, ..fresh };
                [live(tick).then_some(found), (!live(tick) || self.lost).then_some(fresh)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_TICKS: u64 = 100;

    fn check(bit: u16, tick: u64) -> Pending {
        Pending {
            bit,
            after: 0,
            act: Act::Check { tick: Tick { now: tick, stamp: tick }, refresh: false, again: false, lenient: false },
        }
    }

    fn ended(monitor: &mut Monitor, bit: u16, fresh: bool, pending: &[Pending]) -> bool {
        monitor.ended(bit, if fresh { bit } else { 0 }, pending, WINDOW_TICKS)
    }

    #[test]
    fn of_two_checks_one_after_the_other_the_first_is_fresh() {
        let mut monitor = Monitor::new();
        assert!(!ended(&mut monitor.clone(), 1, false, &[check(1, 5)]));
        assert!(ended(&mut monitor, 1, true, &[check(1, 5)]));
        assert!(!ended(&mut monitor.clone(), 1, true, &[check(1, 104)]));
        assert!(!ended(&mut monitor.clone(), 1, false, &[check(1, 105)]));
        assert!(ended(&mut monitor.clone(), 1, true, &[check(1, 105)]));
    }

    #[test]
    fn of_two_checks_at_one_time_either_is_fresh_but_not_both() {
        let pending = [check(1, 5), check(2, 5)];
        let mut monitor = Monitor::new();
        assert!(ended(&mut monitor, 1, false, &pending));
        assert!(ended(&mut monitor.clone(), 2, true, &pending[1..]));
        assert!(!ended(&mut monitor, 2, false, &pending[1..]));
        let mut monitor = Monitor::new();
        assert!(ended(&mut monitor, 1, true, &pending));
        assert!(!ended(&mut monitor, 2, true, &pending[1..]));
    }

    #[test]
    fn what_was_lost_may_be_fresh_again_but_only_afterwards_and_once() {
        let mut monitor = Monitor::new();
        monitor.lost(5, &[], WINDOW_TICKS);
        assert!(ended(&mut monitor, 1, true, &[check(1, 5)]));
        assert!(!ended(&mut monitor.clone(), 1, true, &[check(1, 6)]));
        monitor.lost(4, &[], WINDOW_TICKS);
        assert!(!ended(&mut monitor.clone(), 1, true, &[check(1, 6)]));
        monitor.lost(5, &[], WINDOW_TICKS);
        assert!(ended(&mut monitor, 1, true, &[check(1, 6)]));
        assert!(!ended(&mut monitor, 1, true, &[check(1, 6)]));
    }

    #[test]
    fn after_a_forgetting_an_id_is_fresh_unless_it_was_accepted_meanwhile() {
        let forget = Pending { bit: 4, after: 0, act: Act::Forget };
        let mut monitor = Monitor::new();
        assert!(ended(&mut monitor, 1, true, &[check(1, 5)]));
        assert!(ended(&mut monitor, 4, false, &[forget]));
        assert!(!ended(&mut monitor.clone(), 1, false, &[check(1, 5)]));
        assert!(ended(&mut monitor, 1, true, &[check(1, 5)]));
        assert!(ended(&mut monitor, 1, true, &[forget, check(1, 5)]));
        assert!(ended(&mut monitor, 1, true, &[forget, check(1, 5)]));
        assert!(ended(&mut monitor, 4, false, &[forget]));
        assert!(ended(&mut monitor.clone(), 1, false, &[check(1, 5)]));
        assert!(ended(&mut monitor, 1, true, &[check(1, 5)]));
    }

    #[test]
    fn a_refreshing_check_prolongs() {
        let check =
            |tick| Pending { bit: 1, after: 0, act: Act::Check { tick, refresh: true, again: false, lenient: false } };
        let at = |tick| check(Tick { now: tick, stamp: tick });
        let mut monitor = Monitor::new();
        assert!(ended(&mut monitor, 1, true, &[at(5)]));
        assert!(ended(&mut monitor, 1, false, &[at(50)]));
        assert!(ended(&mut monitor, 1, false, &[at(20)]));
        assert!(ended(&mut monitor.clone(), 1, false, &[at(149)]));
        assert!(ended(&mut monitor.clone(), 1, true, &[at(150)]));
    }
}
