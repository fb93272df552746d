//! A bitmap with one bit for each id of the input, in the order of lines: it is set for a
//! duplicate.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The words of a segment: 1 MiB. So memory grows in small steps, and nothing is copied.
const SEGMENT_WORDS: usize = 1 << 17;
const SEGMENT_IDS: u64 = SEGMENT_WORDS as u64 * 64;

/// The bitmap. Several threads may mark at the same time; who reads comes after all of them.
#[derive(Default)]
pub struct Marks {
    segments: Vec<Box<[AtomicU64]>>,
}

impl Marks {
    /// Makes room for this many ids.
    pub fn grow_to(&mut self, ids: u64) {
        while (self.segments.len() as u64) * SEGMENT_IDS < ids {
            self.segments.push((0..SEGMENT_WORDS).map(|_| AtomicU64::new(0)).collect());
        }
    }

    /// Marks an id, for which there must be room.
    #[inline]
    pub fn mark(&self, id: u64) {
        let at = id % SEGMENT_IDS;
        // Relaxed: whoever reads has joined the threads that mark.
        self.segments[(id / SEGMENT_IDS) as usize][(at / 64) as usize].fetch_or(1 << (at % 64), Relaxed);
    }

    /// Returns true if an id is marked.
    #[inline]
    pub fn is_marked(&self, id: u64) -> bool {
        let at = id % SEGMENT_IDS;
        self.segments[(id / SEGMENT_IDS) as usize][(at / 64) as usize].load(Relaxed) & 1 << (at % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_marked_and_nothing_else() {
        let mut marks = Marks::default();
        let ids = [0, 1, 63, 64, SEGMENT_IDS - 1, SEGMENT_IDS, 2 * SEGMENT_IDS + 5];
        marks.grow_to(ids[6] + 1);
        std::thread::scope(|scope| ids.iter().for_each(|id| drop(scope.spawn(|| marks.mark(*id)))));
        for id in ids.iter().flat_map(|id| [id.saturating_sub(1), *id, id + 1]) {
            assert_eq!(marks.is_marked(id), ids.contains(&id), "{id}");
        }
    }
}
