//! The result of one look at a bucket. The portable way; pure.

use crate::window::bits::slot::{Key, Slot};
use crate::window::bits::tick::Moment;

/// A look at a bucket's slots, which were read one after another while other threads may have
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// True if a slot holds the entry that was looked for, live.
    pub(crate) hit: bool,
    /// True if a slot's `spilled` flag counts.
    pub(crate) spilled: bool,
    /// The place of the next entry, if the view is valid.
    pub(crate) ring: Ring,
    /// True if the versions read l…l, l-1…l-1. Then, and only then, nothing was inserted while the
    /// slots were read.
    pub(crate) valid: bool,
}

/// The ring's next insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// The slot that is written next: the oldest.
    pub(crate) head: usize,
    /// The version that it will have.
    pub(crate) version: u64,
}

/// The result of a short look for an id that hardly ever is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glance {
    /// The id is not there, nothing says that it may be elsewhere, and the view is valid: the slot
    /// at the head of its ring, and what that holds.
    Absent(usize, Slot),
    /// The id is there, live.
    Hit,
    /// Neither is certain. (Also if another entry is like that of the id.)
    Unclear,
}

/// The result of a look for an id that is inserted if it is not there, of many in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// True if the id is there, live.
    pub(crate) hit: bool,
    /// True if nothing says that it may be elsewhere, and the view is valid.
    pub(crate) clear: bool,
    /// The slot at the head of its ring, if it is …
    pub(crate) head: usize,
    /// … and what that holds.
    pub(crate) old: Slot,
}

impl Sight {
    /// Returns what a view shows, with the slot at the head of its ring.
    #[inline(always)]
    pub(crate) fn of((view, old): (View, Slot)) -> Self {
        Sight { hit: view.hit, clear: !view.spilled & view.valid, head: view.ring.head, old }
    }
}

impl Glance {
    /// Returns what a view shows, with the slot at the head of its ring.
    #[inline(always)]
    pub(crate) fn of((view, head): (View, Slot)) -> Self {
        match view {
            View { hit: true, .. } => Glance::Hit,
            View { spilled: false, valid: true, ring, .. } => Glance::Absent(ring.head, head),
            _ => Glance::Unclear,
        }
    }
}

impl View {
    /// Looks at slots that were read already.
    #[inline(always)]
    pub(crate) fn of<const SLOTS: usize>(slots: &[Slot; SLOTS], key: Key, moment: &Moment, version_mask: u64) -> Self {
        let first = slots[0].version(version_mask);
        let (mut hit, mut spilled, mut newest, mut lags) = (false, false, 0, 0);
        for (i, slot) in slots.iter().enumerate() {
            let lag = first.wrapping_sub(slot.version(version_mask)) & version_mask;
            hit |= slot.matches(key) & moment.is_live(slot.0);
            spilled |= slot.carries(moment);
            newest |= u32::from(lag == 0) << i;
            lags |= lag;
        }
        Self::new::<SLOTS>(hit, spilled, newest, lags <= 1, first, version_mask)
    }

    /// Returns the view, given the set of slots whose version is that of the first slot, and
    /// whether no version is more than one behind it.
    #[inline(always)]
    pub(crate) fn new<const SLOTS: usize>(
        hit: bool,
        spilled: bool,
        newest: u32,
        close: bool,
        first: u64,
        version_mask: u64,
    ) -> Self {
        let whole = newest & (newest + 1) == 0;
        Self::of_ring::<SLOTS>(hit, spilled, newest.trailing_ones() as usize, close & whole, first, version_mask)
    }

    /// Returns the view, given the number of slots at the start whose version is that of the first
    /// one, and whether all others are one behind it.
    #[inline(always)]
    pub(crate) fn of_ring<const SLOTS: usize>(
        hit: bool,
        spilled: bool,
        written: usize,
        valid: bool,
        first: u64,
        version_mask: u64,
    ) -> Self {
        let full = written / SLOTS; // 1 if all slots have been written in this version, else 0
        let ring = Ring { head: written % SLOTS, version: (first + full as u64) & version_mask };
        View { hit, spilled, ring, valid }
    }

    /// Returns all that it tells, as numbers.
    #[inline(always)]
    pub(crate) fn numbers(&self) -> [u64; 2] {
        let flags = [self.hit, self.spilled, self.valid].into_iter().fold(0, |bits, flag| bits << 1 | u64::from(flag));
        [flags, self.ring.version << 8 | self.ring.head as u64]
    }

    /// Returns true if the slots, if nothing changes, are a state of a ring.
    pub(crate) fn is_ring(slots: &[Slot], version_mask: u64) -> bool {
        let first = slots[0].version(version_mask);
        let lag = |slot: &Slot| first.wrapping_sub(slot.version(version_mask)) & version_mask;
        let written = slots.iter().take_while(|slot| lag(slot) == 0).count();
        slots[written..].iter().all(|slot| lag(slot) == 1)
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::window::bits::slot::{SLOTS, Tag, VERSION_BITS};
    use crate::window::bits::tick::{Limits, Tick};

    const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;

    fn view(versions: [u64; SLOTS]) -> View {
        let moment = Moment::new(Tick { now: 0, stamp: 0 }, Limits::of_window(100));
        View::of(&versions.map(Slot), Tag::of(0).at_home(), &moment, VERSION_MASK)
    }

    #[test]
    fn a_view_is_valid_exactly_for_the_states_of_a_ring() {
        // Miri tests a few of each.
        let every = |usual: usize| if cfg!(miri) { usual } else { 1 };
        for start in [0, 1, 61, 62, 63_u64].into_iter().step_by(every(4)) {
            for written in (0..SLOTS).step_by(every(5)) {
                let version = |i| start.wrapping_add(u64::from(i < written)) & VERSION_MASK;
                let versions = std::array::from_fn(version);
                let seen = view(versions);
                assert!(seen.valid);
                assert_eq!(seen.ring.head, written);
                assert_eq!(seen.ring.version, (start + 1) & VERSION_MASK);

                // Any other version in any slot is no state of a ring, except for the neighbouring
                // states.
                for slot in 0..SLOTS {
                    for wrong in (0..=VERSION_MASK).step_by(every(31)) {
                        let mut broken = versions;
                        broken[slot] = wrong;
                        let states = (0..=VERSION_MASK).flat_map(|s| (0..SLOTS).map(move |w| (s, w)));
                        let is_state = states.into_iter().any(|(s, w)| {
                            broken == std::array::from_fn(|i| s.wrapping_add(u64::from(i < w)) & VERSION_MASK)
                        });
                        assert_eq!(view(broken).valid, is_state, "{broken:?}");
                        assert_eq!(View::is_ring(&broken.map(Slot), VERSION_MASK), is_state, "{broken:?}");
                    }
                }
            }
        }
    }
}
