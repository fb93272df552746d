//! The entries of ids in flight, by name: a hash map for entries that come and go at once.
//!
//! Open addressing. A name is uniform, so some of its bits are its *home*, the place where its
//! entry is looked for first; it is there, or in the first place after that was free. A removal
//! moves up what stood behind only because of it, so it leaves no mark, and a look ends at the
//! first free place: that is where the entry belongs. So a look and the insertion or removal after
//! it are one search, where `std`'s map makes two, and keeps marks.

use super::name::Name;

/// Entries by name.
#[derive(Debug)]
pub(super) struct InFlight<T> {
    /// A power of two of them, or none; a quarter of them is free at least.
    places: Box<[Option<(Name, T)>]>,
    len: usize,
}

/// The place of a name: that of its entry, or the free one where its entry belongs.
pub(super) struct Place<'m, T> {
    map: &'m mut InFlight<T>,
    name: Name,
    at: usize,
}

impl<T> InFlight<T> {
    pub(super) fn new() -> Self {
        InFlight { places: Box::default(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory that this many entries take.
    pub(super) fn bytes_for(len: usize) -> usize {
        Self::places_for(len) * size_of::<Option<(Name, T)>>()
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    fn places_for(len: usize) -> usize {
        if len == 0 { 0 } else { (len * 4).div_ceil(3).next_power_of_two().max(4) }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        self.iter().map(|(name, _)| *name)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, entry)| entry)
    }

    fn iter(&self) -> impl Iterator<Item = &(Name, T)> {
        // (Of an empty map, which is looked through most often, no place is looked at.)
        self.places.iter().flatten().take(self.len)
    }

    pub(super) fn get(&self, name: Name) -> Option<&T> {
        self.entry_at(self.position(name))
    }

    pub(super) fn get_mut(&mut self, name: Name) -> Option<&mut T> {
        let at = self.position(name);
        self.places.get_mut(at)?.as_mut().map(|(_, entry)| entry)
    }

    /// Returns the place of a name, into which nothing is to be put that is not there.
    #[inline(always)]
    pub(super) fn find(&mut self, name: Name) -> Place<'_, T> {
        let at = self.position(name);
        Place { map: self, name, at }
    }

    /// Returns the place of a name, which has room for its entry.
    #[inline(always)]
    pub(super) fn place(&mut self, name: Name) -> Place<'_, T> {
        if 4 * self.len >= 3 * self.places.len() {
            self.grow();
        }
        self.find(name)
    }

    /// Returns the position of a name's entry, or that of the first free place from its home on.
    #[inline(always)]
    fn position(&self, name: Name) -> usize {
        let mut at = self.home(name);
        while let Some(Some((other, _))) = self.places.get(at)
            && *other != name
        {
            at = self.after(at);
        }
        at
    }

    /// Returns where a name is looked for first. (Where there are no places, nowhere.)
    #[inline(always)]
    fn home(&self, name: Name) -> usize {
        name.bits() & self.places.len().wrapping_sub(1)
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    #[inline(always)]
    fn entry_at(&self, at: usize) -> Option<&T> {
        self.places.get(at)?.as_ref().map(|(_, entry)| entry)
    }

    #[inline(never)]
    fn grow(&mut self) {
        let places = (0..Self::places_for(self.len + 1)).map(|_| None).collect();
        for (name, entry) in std::mem::replace(&mut self.places, places).into_iter().flatten() {
            let at = self.position(name);
            self.places[at] = Some((name, entry));
        }
    }

    /// Takes out the entry at a position, and moves up what is not at home because of it.
    #[inline(always)]
    fn take(&mut self, at: usize) -> Option<T> {
        let (_, entry) = self.places.get_mut(at)?.take()?;
        self.len -= 1;
        let (mut free, mut at) = (at, self.after(at));
        while let Some((name, _)) = &self.places[at] {
            let distance = |from: usize| at.wrapping_sub(from) & (self.places.len() - 1);
            // It came to the free place on its way from home.
            if distance(self.home(*name)) >= distance(free) {
                self.places.swap(free, at);
                free = at;
            }
            at = self.after(at);
        }
        Some(entry)
    }

    /// Keeps the entries that meet a condition.
    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let mut at = 0;
        while at < self.places.len() {
            if self.entry_at(at).is_none_or(&keep) {
                at += 1;
            } else {
                // (Another may stand there now, which was not looked at yet; or one that was, from
                // the first places.)
                self.take(at);
            }
        }
    }
}

impl<T> Place<'_, T> {
    #[inline(always)]
    pub(super) fn get(&self) -> Option<&T> {
        self.map.entry_at(self.at)
    }

    /// Puts an entry there, in place of one that is there.
    #[inline(always)]
    pub(super) fn put(self, entry: T) {
        let place = &mut self.map.places[self.at];
        self.map.len += usize::from(place.is_none());
        *place = Some((self.name, entry));
    }

    /// Takes the entry out, if there is one.
    #[inline(always)]
    pub(super) fn take(self) -> Option<T> {
        self.map.take(self.at)
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Names of which many have one home, all among the last places.
    fn name(n: u8) -> Name {
        Name::of(Digest { place: u64::MAX - u64::from(n % 8), mark: u64::from(n) << 40 | 1 << 63 })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]

        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0..6_u8, 0..60_u8), 0..400)) {
            let (mut map, mut model) = (InFlight::new(), HashMap::new());
            for (step, (what, n)) in steps.into_iter().enumerate() {
                match what {
                    0..3 => {
                        let place = map.place(name(n));
                        prop_assert_eq!(place.get(), model.get(&n));
                        place.put(step);
                        model.insert(n, step);
                    }
                    3 => {
                        let place = map.find(name(n));
                        prop_assert_eq!(place.get(), model.get(&n));
                        prop_assert_eq!(place.take(), model.remove(&n));
                    }
                    4 => {
                        prop_assert_eq!(map.get_mut(name(n)), model.get_mut(&n));
                        prop_assert_eq!(map.get(name(n)), model.get(&n));
                    }
                    _ => {
                        map.retain(|entry| entry % 3 != usize::from(n % 3));
                        model.retain(|_, entry| *entry % 3 != usize::from(n % 3));
                    }
                }
                prop_assert!(model.iter().all(|(n, entry)| map.get(name(*n)) == Some(entry)));
                prop_assert_eq!((map.len(), map.names().count()), (model.len(), map.entries().count()));
                prop_assert!(map.bytes() >= InFlight::<usize>::bytes_for(map.len()));
            }
        }
    }

    #[test]
    fn a_map_that_had_nothing_takes_no_memory_and_a_full_one_what_is_planned() {
        let mut map = InFlight::new();
        assert_eq!((map.bytes(), InFlight::<u64>::bytes_for(0), map.get(name(1))), (0, 0, None));
        assert!(map.find(name(1)).take().is_none());
        for n in 0..49_u64 {
            assert!(map.get(Name::of(Digest::from(u128::from(n) << 65))).is_none());
            map.place(Name::of(Digest::from(u128::from(n) << 65))).put(n);
            assert_eq!(map.bytes(), InFlight::<u64>::bytes_for(map.len()), "{n}");
        }
        assert_eq!(map.bytes() / size_of::<Option<(Name, u64)>>(), 128, "48 of 64 are the most");
    }
}
