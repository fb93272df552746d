//! The room that is made for items because an iterator announces them.

/// The most items for which room is made because an iterator announces them. It may be mistaken, or
/// lie: more room is made when the items are there.
pub(crate) const BELIEVED: usize = 1 << 16;

/// Returns the number of items to make room for before an iterator is asked for any.
pub(crate) fn room_for(items: &impl Iterator) -> usize {
    items.size_hint().0.min(BELIEVED)
}

/// Appends all items of an iterator. (`Vec::extend` would ask for as much memory as the iterator
/// announces, and end the process if that is not available.)
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
