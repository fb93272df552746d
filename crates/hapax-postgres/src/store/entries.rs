//! The ids of a batch, sorted and cut: pure.

use hapax_store::StoredId;
use std::ops::Range;

/// An id of a batch, and the requests for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) scope: i32,
    pub(super) id: StoredId,
    /// The requests for this id that have no answer yet, as a range of the requests' order.
    pub(super) asking: Range<usize>,
}

/// Sorts a batch of the numbers of scopes, ids, and positions of requests. Returns the positions by
/// key, in which order all batches take their locks, and then as they were made; and the entries.
pub(super) fn sort(mut requests: Vec<(i32, StoredId, usize)>) -> (Vec<usize>, Vec<Entry>) {
    requests.sort_unstable();
    let (mut order, mut entries) = (Vec::with_capacity(requests.len()), Vec::<Entry>::with_capacity(requests.len()));
    for (scope, id, position) in requests {
        let at = order.len();
        order.push(position);
        match entries.last_mut() {
            Some(last) if last.scope == scope && last.id == id => last.asking.end = at + 1,
            _ => entries.push(Entry { scope, id, asking: at..at + 1 }),
        }
    }
    (order, entries)
}

/// Cuts a batch where another table begins, or where the results exceed this many bytes.
pub(super) fn cut(
    entries: Vec<Entry>,
    family: impl Fn(i32) -> i32,
    bytes: impl Fn(&Entry) -> usize,
    bytes_max: usize,
) -> Vec<(i32, Vec<Entry>)> {
    let mut parts: Vec<(i32, Vec<Entry>)> = Vec::new();
    let mut sum = 0;
    for entry in entries {
        let (family, bytes) = (family(entry.scope), bytes(&entry));
        match parts.last_mut() {
            Some((last, part)) if *last == family && sum + bytes <= bytes_max => {
                sum += bytes;
                part.push(entry);
            }
            _ => {
                sum = bytes;
                parts.push((family, vec![entry]));
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(scope: i32, id: &str, position: usize) -> (i32, StoredId, usize) {
        (scope, StoredId::new(id.as_bytes()), position)
    }

    #[test]
    fn a_batch_is_sorted_and_every_request_is_in_one_entry_in_its_order() {
        let (order, entries) =
            sort(vec![request(2, "a", 0), request(1, "b", 1), request(1, "a", 2), request(1, "b", 3)]);
        assert_eq!(order, [2, 1, 3, 0]);
        let keys: Vec<_> = entries.iter().map(|e| (e.scope, e.id.as_bytes().to_vec(), e.asking.clone())).collect();
        assert_eq!(keys, [(1, b"a".to_vec(), 0..1), (1, b"b".to_vec(), 1..3), (2, b"a".to_vec(), 3..4)]);
    }

    #[test]
    fn ids_are_sorted_as_the_server_sorts_them() {
        // Byte by byte, a prefix first.
        let ids: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a", b"ab", b"\xff"];
        let (_, entries) = sort(ids.iter().rev().enumerate().map(|(i, id)| (1, StoredId::new(id), i)).collect());
        assert_eq!(entries.iter().map(|entry| entry.id.as_bytes()).collect::<Vec<_>>(), ids);
    }

    #[test]
    fn a_batch_is_cut_at_tables_and_bytes() {
        let entries = |scopes: &[i32]| {
            scopes.iter().map(|&scope| Entry { scope, id: StoredId::new(b""), asking: 0..1 }).collect::<Vec<_>>()
        };
        let lengths =
            |parts: Vec<(i32, Vec<Entry>)>| parts.iter().map(|(f, part)| (*f, part.len())).collect::<Vec<_>>();
        assert_eq!(lengths(cut(entries(&[1, 2, 2, 3]), |_| 0, |_| 0, 10)), [(0, 4)]);
        assert_eq!(lengths(cut(entries(&[1, 2, 2, 3]), |scope| scope, |_| 0, 10)), [(1, 1), (2, 2), (3, 1)]);
        assert_eq!(lengths(cut(entries(&[1, 1, 1]), |_| 0, |_| 5, 10)), [(0, 2), (0, 1)]);
        assert_eq!(lengths(cut(entries(&[1, 1]), |_| 0, |_| 11, 10)), [(0, 1), (0, 1)]);
        assert!(cut(Vec::new(), |_| 0, |_| 0, 10).is_empty());
    }
}
