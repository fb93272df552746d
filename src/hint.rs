//! The part that is believed of the lengths that callers' iterators announce.

/// The number of items for which room is made because an iterator announces them. It may be
/// mistaken, or lie: more is asked for when the items are there.
pub(crate) const BELIEVED: usize = 1 << 16;

/// Returns the number of items to make room for before an iterator is asked for any.
pub(crate) fn room_for(items: &impl Iterator) -> usize {
    items.size_hint().0.min(BELIEVED)
}

/// Appends all items of an iterator. (`Vec::extend` would ask for as much memory as it announces,
/// and end the process if that cannot be had.)
pub(crate) fn extend<T>(all: &mut Vec<T>, items: impl Iterator<Item = T>) {
    all.reserve(room_for(&items));
    items.for_each(|item| all.push(item));
}

/// Collects all items of an iterator.
pub fn collect<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    extend(&mut all, items);
    all
}
