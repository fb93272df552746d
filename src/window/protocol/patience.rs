//! Buckets that show no ring: others insert just now, or a caller that has stalled has broken it.

use super::bucket_memory::BucketMemory;
use crate::mutation::{Rule, obeys};
use crate::sync::spin_loop;
use crate::window::bits::slot::{Key, SLOTS, Slot};
use crate::window::bits::tick::Moment;
use crate::window::look::view::View;

/// The bound of looks at a bucket whose ring is broken.
pub(in crate::window) struct Patience(u32);

impl Patience {
    /// The most invalid views in a row. A view is invalid while others insert, so rarely twice in a
    /// row.
    const LOOKS_MAX: u32 = if cfg!(modelled) { 2 } else { 64 };

    pub(in crate::window) fn new() -> Self {
        Patience(0)
    }

    pub(in crate::window) fn invalid_view<M: BucketMemory>(&mut self, memory: &M, bucket: usize) {
        self.0 += 1;
        if self.0.is_multiple_of(Self::LOOKS_MAX) && obeys(Rule::Repair) {
            repair(memory, bucket);
        } else {
            spin_loop();
        }
    }
}

/// Mends a bucket whose versions a stalled caller has broken after the version wrapped: no view of
/// it will ever be valid, so no caller inserts, and the bucket stays as it is. Every slot gets the
/// version of slot 0, which no repair changes, so that repairs at the same time agree.
#[cold]
fn repair<M: BucketMemory>(memory: &M, bucket: usize) {
    let mut first = [Slot::default(); SLOTS];
    let slots = &mut first[..M::SLOTS];
    for (i, slot) in slots.iter_mut().enumerate() {
        *slot = memory.load(bucket, i);
    }
    // Two looks that show the same are one look at one moment: a slot that was written in between
    // has another version.
    let changed = (0..M::SLOTS).any(|i| memory.load(bucket, i) != slots[i]);
    if changed || View::is_ring(slots, M::VERSION_MASK) {
        return;
    }
    let version = slots[0].version(M::VERSION_MASK);
    for (i, slot) in slots.iter().enumerate().skip(1) {
        if slot.version(M::VERSION_MASK) != version {
            memory.replace(bucket, i, *slot, slot.with_version(version), None);
        }
    }
    memory.repaired();
}

/// Returns the number of insertions that a bucket has seen, modulo what its versions can tell.
pub(crate) fn insertions<M: BucketMemory>(memory: &M, bucket: usize, moment: &Moment) -> u64 {
    let mut patience = Patience::new();
    loop {
        let view = memory.view(bucket, Key::NONE, moment);
        if view.valid {
            return view.ring.version * M::SLOTS as u64 + view.ring.head as u64;
        }
        patience.invalid_view(memory, bucket);
    }
}
