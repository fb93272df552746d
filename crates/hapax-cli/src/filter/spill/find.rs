//! Second pass: the duplicates of each partition are marked.

use super::partitions::Filed;
use super::records::{RECORD_BYTES, decode};
use super::table::{Seen, Table};
use crate::error::CommandError;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// The records that are looked up together.
const TOGETHER: usize = 32;

/// A part of a partition: the digests that have these highest bits.
#[derive(Clone, Copy)]
struct Part {
    partition: usize,
    bits: u32,
    highest: u128,
}

impl Part {
    fn has(self, digest: u128) -> bool {
        digest >> (128 - self.bits) == self.highest
    }

    /// Returns its two halves; none if there is no bit left that could tell digests apart.
    fn halves(self) -> Option<[Part; 2]> {
        let half = |bit| Part { bits: self.bits + 1, highest: self.highest << 1 | bit, ..self };
        (self.bits < 128).then(|| [half(0), half(1)])
    }
}

/// Marks all duplicates. Returns how often a partition was divided, since its table was full.
/// `asked` is called again and again, and returns a failure if all is to end.
pub fn duplicates(filed: &Filed, asked: &(dyn Fn() -> Result<(), CommandError> + Sync)) -> Result<u64, CommandError> {
    let (next, stopped, divided) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let failure = Mutex::new(None);
    let work = || {
        let mut finder = Finder { filed, table: Table::default(), buffer: Vec::new(), divided: 0 };
        while !stopped.load(Relaxed) {
            let partition = next.fetch_add(1, Relaxed);
            if partition >= filed.partitions() {
                break;
            }
            let part = Part { partition, bits: filed.budget().partition_bits, highest: partition as u128 };
            if let Err(error) = finder.find(part, &|| asked()) {
                stopped.store(true, Relaxed);
                failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
            }
        }
        divided.fetch_add(finder.divided, Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 1..filed.budget().threads {
            scope.spawn(work);
        }
        work();
    });
    let failure = failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    failure.map_or(Ok(divided.into_inner()), Err)
}

/// One thread's work.
struct Finder<'f> {
    filed: &'f Filed,
    table: Table,
    buffer: Vec<u8>,
    divided: u64,
}

impl Finder<'_> {
    /// Marks the duplicates of a part. If its digests are more than there are slots, its halves are
    /// looked at one after the other.
    fn find(&mut self, part: Part, asked: &dyn Fn() -> Result<(), CommandError>) -> Result<(), CommandError> {
        let slots = Table::slots_for(self.filed.records(part.partition));
        self.table.begin(slots.min(self.filed.budget().slots));
        if self.is_found(part, asked)? {
            return Ok(());
        }
        self.divided += 1;
        // Digests that are different can be told apart.
        part.halves().into_iter().flatten().try_for_each(|half| self.find(half, asked))
    }

    /// Streams a part through the table. Returns false if the table became full. What is marked by
    /// then is a duplicate all the same.
    fn is_found(&mut self, part: Part, asked: &dyn Fn() -> Result<(), CommandError>) -> Result<bool, CommandError> {
        let Finder { filed, table, buffer, .. } = self;
        let is_whole = part.bits == filed.budget().partition_bits;
        let (mut id, mut is_full) = (0, false);
        let mut together = [(0, 0, 0); TOGETHER];
        filed.stream(part.partition, buffer, |bytes| {
            asked()?;
            let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
            for records in records.chunks(TOGETHER) {
                let (mut count, mut touched) = (0, 0);
                for record in records {
                    let (distance, digest) = decode(record);
                    id += distance;
                    let Some(digest) = digest.filter(|digest| is_whole || part.has(*digest)) else { continue };
                    let home = table.home(digest);
                    touched |= table.peek(home);
                    together[count] = (id, home, digest);
                    count += 1;
                }
                std::hint::black_box(touched);
                for (id, home, digest) in &together[..count] {
                    match table.see(*home, *digest) {
                        Seen::New => {}
                        Seen::Before => filed.marks().mark(*id),
                        Seen::Full => {
                            is_full = true;
                            return Ok(false);
                        }
                    }
                }
            }
            Ok(true)
        })?;
        Ok(!is_full)
    }
}
