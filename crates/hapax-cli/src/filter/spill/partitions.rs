//! First pass: the digest of each line goes to its partition, by its highest bits.

use super::budget::Budget;
use super::marks::Marks;
use super::nameless::Nameless;
use super::recent::Recent;
use super::records::{RECORD_BYTES, encode};
use crate::error::CommandError;
use crate::filter::options::Keep;
use hapax_plan::BytesNeeded;
use xxhash_rust::xxh3::xxh3_64;

/// Digests on their way to the disk.
pub struct Partitions {
    pub budget: Budget,
    /// A buffer for each partition, one after the other.
    buffers: Vec<u8>,
    heads: Vec<Head>,
    blocks: Vec<Vec<Block>>,
    file: Nameless,
    recent: Recent,
    pub marks: Marks,
    ids: u64,
    keep: Keep,
}

/// A partition, as far as each id needs it.
#[derive(Clone, Copy, Default)]
struct Head {
    /// The bytes in its buffer.
    filled: usize,
    /// The number of its last id among all ids.
    last: u64,
    records: u64,
}

/// A buffer that was written.
#[derive(Clone, Copy)]
struct Block {
    offset: u64,
    hash: u64,
}

impl Partitions {
    pub fn new(budget: Budget, keep: Keep, file: Nameless) -> Self {
        let partitions = 1 << budget.partition_bits;
        let buffers = vec![0; partitions * budget.buffer_records * RECORD_BYTES];
        let (heads, blocks) = (vec![Head::default(); partitions], vec![Vec::new(); partitions]);
        let (recent, marks) = (Recent::new(), Marks::default());
        Partitions { budget, buffers, heads, blocks, file, recent, marks, ids: 0, keep }
    }

    /// Takes in the digests of the next lines.
    pub fn add(&mut self, digests: &[u128]) -> Result<(), CommandError> {
        let ids = self.ids + digests.len() as u64;
        if ids > self.budget.lines_max {
            return Err(CommandError::Usage(format!(
                "--max-memory: more than {} lines take a bitmap of more than half of it; nothing is printed. {} are \
                 enough for twice as many",
                self.budget.lines_max,
                BytesNeeded(Budget::needed(self.budget.lines_max * 2) as f64)
            )));
        }
        self.marks.grow_to(ids);
        for digest in digests {
            // If the last one is kept, one that came before is the duplicate: all are filed.
            if self.keep == Keep::First && self.recent.has(*digest) {
                self.marks.mark(self.ids);
            } else {
                self.file(*digest)?;
            }
            self.ids += 1;
        }
        Ok(())
    }

    #[inline]
    fn file(&mut self, digest: u128) -> Result<(), CommandError> {
        let partition = (digest >> (128 - self.budget.partition_bits)) as usize;
        let distance = self.ids - self.heads[partition].last;
        let (far, record) = encode(distance, digest);
        if let Some(far) = far {
            self.push(partition, &far)?;
        }
        self.push(partition, &record)?;
        self.heads[partition].last = self.ids;
        Ok(())
    }

    #[inline]
    fn push(&mut self, partition: usize, record: &[u8; RECORD_BYTES]) -> Result<(), CommandError> {
        let bytes = self.buffer_bytes();
        let head = &mut self.heads[partition];
        let at = partition * bytes + head.filled;
        self.buffers[at..at + RECORD_BYTES].copy_from_slice(record);
        head.filled += RECORD_BYTES;
        head.records += 1;
        if head.filled == bytes {
            self.write(partition)?;
        }
        Ok(())
    }

    #[cold]
    fn write(&mut self, partition: usize) -> Result<(), CommandError> {
        let bytes = self.buffer_bytes();
        let buffer = &self.buffers[partition * bytes..(partition + 1) * bytes];
        let offset = self.file.append(buffer)?;
        self.blocks[partition].push(Block { offset, hash: xxh3_64(buffer) });
        self.heads[partition].filled = 0;
        Ok(())
    }

    fn buffer_bytes(&self) -> usize {
        self.budget.buffer_records * RECORD_BYTES
    }

    /// Returns the number of partitions.
    pub fn count(&self) -> usize {
        self.heads.len()
    }

    /// Returns the number of records in a partition.
    pub fn records(&self, partition: usize) -> u64 {
        self.heads[partition].records
    }

    /// Returns the number of a partition's last id, if the partition is read from its end.
    pub fn backwards(&self, partition: usize) -> Option<u64> {
        (self.keep == Keep::Last).then_some(self.heads[partition].last)
    }

    /// Returns the bitmap, and gives all other memory back.
    pub fn into_marks(self) -> Marks {
        self.marks
    }

    /// Returns the bytes that were written to the disk.
    pub fn written(&self) -> u64 {
        self.file.written()
    }

    /// Calls `each` with the records of a partition in the order of lines, a buffer at a time,
    /// until it returns false; with the last buffer first if the last line of each id is kept.
    pub fn stream(
        &self,
        partition: usize,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(&[u8]) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        let Partitions { buffers, heads, blocks, file, .. } = self;
        buffer.resize(self.buffer_bytes(), 0);
        let at = partition * self.buffer_bytes();
        let end = &buffers[at..at + heads[partition].filled];
        let is_last = self.keep == Keep::Last;
        if is_last && !each(end)? {
            return Ok(());
        }
        let blocks = &blocks[partition];
        for at in 0..blocks.len() {
            let block = blocks[if is_last { blocks.len() - 1 - at } else { at }];
            file.read(buffer, block.offset)?;
            if xxh3_64(buffer) != block.hash {
                return Err(file.damaged());
            }
            if !each(buffer)? {
                return Ok(());
            }
        }
        if is_last { Ok(()) } else { each(end).map(drop) }
    }
}
